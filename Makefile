# What a newcomer runs, each from a fresh clone. Everything else is a chore of `cargo x` (see xtask/).
.PHONY: demo test test-guests bench bench-vendor console deb tarball

demo:
	@sh console/build.sh
	cargo build --profile demo --package hotset
	target=$$(cargo x target-dir) && "$$target/demo/hotset" demo

test:
	@sh tests/prepare.sh
	@cargo x test </dev/null

# All that takes a virtual machine, also what takes minutes: packages as docs/INSTALL.md says, docs/stacks, many kills. As root.
test-guests:
	@sh tests/prepare.sh
	@sh console/build.sh
	@cargo x guest --all </dev/null

bench:
	@sh tests/prepare.sh
	@cargo x bench </dev/null

# What vendors published of their SSD caches, done again: tables and plots in docs/benchmarks. As root: half an hour on two processors.
bench-vendor:
	@sh tests/prepare.sh
	@cargo x bench --only b1 b2 b3 b4 b5 b6 b7 b8 b9 b10 </dev/null

# The web console's files, which the next build of the binary embeds.
console:
	cd console && npm ci --no-audit --no-fund && npm run build

# Debian packages in the target directory: hotset_VERSION_ARCH.deb, and hotset-dbgsym_VERSION_ARCH.deb for debuggers.
deb:
	@sh console/build.sh
	@cargo x deb </dev/null

# The same for other distributions: hotset-VERSION-ARCH.tar.gz, with a script that installs it.
tarball:
	@sh console/build.sh
	@cargo x tarball </dev/null

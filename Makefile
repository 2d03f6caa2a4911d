# What a newcomer runs, each from a fresh clone. Everything else is a chore of `cargo x` (see xtask/).
.PHONY: demo test bench console

demo:
	@sh console/build.sh
	cargo build --release --package hotset
	target=$$(cargo x target-dir) && "$$target/release/hotset" demo

test:
	@sh tests/prepare.sh
	@cargo x test </dev/null

bench:
	@sh tests/prepare.sh
	@cargo x bench </dev/null

# The web console's files, which the next build of the binary embeds.
console:
	cd console && npm ci --no-audit --no-fund && npm run build

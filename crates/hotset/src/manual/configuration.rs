//! hotset.toml(5), made of the file that is installed: each key with its default as a comment, and what it is above.

use super::markup::{self, ManualPage};

/// What is installed as `/etc/hotset/hotset.toml`.
pub(crate) const INSTALLED: &str = include_str!("../../../../contrib/hotset.toml");

const INTRODUCTION: &str = "## SYNOPSIS\n    /etc/hotset/hotset.toml\n\n## DESCRIPTION\nThe configuration of the Hotset daemon, \
    in TOML. `hotset serve --config` names another file. Flags of hotset-serve(1) win over it. Unknown keys are errors.\n\n";

const REST: &str = "\n## EXAMPLES\nHosts and administrators come over the network, with certificates:\n\
    \x20   api = [\"unix:/var/lib/hotset/api.sock\", \"tcp:0.0.0.0:7780\"]\n\
    \x20   nbd = [\"unix:/var/lib/hotset/nbd.sock\", \"tcp:0.0.0.0:10809\"]\n\
    \x20   [api_tls]\n\
    \x20   certificate = \"/etc/hotset/api.pem\"\n\
    \x20   key = \"/etc/hotset/api.key\"\n\
    \x20   [tls]\n\
    \x20   certificate = \"/etc/hotset/server.pem\"\n\
    \x20   key = \"/etc/hotset/server.key\"\n\
    \x20   client_ca = \"/etc/hotset/clients.pem\"\n\n\
    Virtual machines of libvirt use the volumes:\n\
    \x20   nbd = [\"unix:/run/hotset/nbd.sock\"]\n\
    \x20   nbd_socket_group = \"libvirt-qemu\"\n\n\
    ## SEE ALSO\nhotset-serve(1), hotset-config-check(1), hotset-concepts(7), systemd.socket(5)\n";

pub(super) fn page() -> ManualPage {
    let mut text = INTRODUCTION.to_owned();
    let mut blocks = INSTALLED.split("\n\n");
    text.push_str(&blocks.next().map(prose).unwrap_or_default());
    text.push_str("\n\n## KEYS\n");
    for block in blocks {
        text.push_str(&term(block));
    }
    text.push_str(REST);
    markup::page("hotset.toml", 5, "the configuration of the Hotset daemon", &text)
}

/// The comments of a block, in one line.
fn prose(block: &str) -> String {
    block.lines().filter_map(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join(" ")
}

/// A block as a term with its meaning.
fn term(block: &str) -> String {
    let settings: Vec<String> = settings(block).map(|line| format!("`{line}`")).collect();
    if settings.is_empty() { String::new() } else { format!("{} :: {}\n", settings.join("  "), prose(block)) }
}

/// The lines of a block that are settings, or the name of a table.
fn settings(block: &str) -> impl Iterator<Item = &str> {
    block.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| !line.is_empty() && !line.starts_with(' '))
}

/// All keys of the installed file, with their tables, as `tls.key`; each with its default, or an example.
#[cfg(test)]
pub(crate) fn keys() -> Vec<(String, &'static str)> {
    let mut table = String::new();
    let mut all = Vec::new();
    for line in settings(INSTALLED) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((name, value)) = line.split_once(" = ") {
            all.push((format!("{table}{name}"), value));
        }
    }
    all
}

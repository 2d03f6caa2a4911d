//! Whether a daemon would start with a configuration, and if not, why: without a daemon, and without a change.

use std::path::{Path, PathBuf};

use super::certificates;
use super::config::{ApiTlsFiles, Config, TlsFiles};
use super::http::ApiTls;
use super::log;
use super::notices;
use crate::args::ServeArguments;
use crate::given_file::UnusableFile;
use crate::paths;

/// Reads the file, what it says and the files that it names. Returns which one it was.
///
/// # Errors
/// One message for people that names the file, and the line and the key where there are.
pub(crate) fn check_config(named: Option<&Path>) -> Result<PathBuf, String> {
    let path = named.map_or_else(|| PathBuf::from(paths::CONFIG_FILE), Path::to_path_buf);
    let arguments = ServeArguments { config: Some(path.clone()), ..Default::default() };
    let (config, written) = Config::load_written(&arguments, &[])?;
    log::check_filter(&config.log).map_err(|message| written.told(None, "log", &message))?;
    // The key that names the file.
    let told = |table: &str, keys: &[(&str, &Path)], unusable: UnusableFile| {
        let key = keys.iter().find(|(_, file)| *file == unusable.file).map_or("", |(key, _)| key);
        written.told(Some(table), key, &unusable.message)
    };
    if let Some(ApiTlsFiles { certificate, key }) = &config.api_tls {
        let keys: [(&str, &Path); 2] = [("certificate", certificate), ("key", key)];
        ApiTls::load(certificate, key).map_err(|unusable| told("api_tls", &keys, unusable))?;
    }
    if let Some(files @ TlsFiles { certificate, key, client_ca }) = &config.tls {
        let keys: [(&str, &Path); 3] = [("certificate", certificate), ("key", key), ("client_ca", client_ca)];
        certificates::for_hosts(files).map_err(|unusable| told("tls", &keys, unusable))?;
    }
    notices::check_files(&config.notices).map_err(|(key, message)| written.told(Some("notices"), key, &message))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<PathBuf, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hotset.toml");
        std::fs::write(&path, text).unwrap();
        check_config(Some(&path))
    }

    #[test]
    fn the_installed_file_is_right() {
        check(crate::manual::INSTALLED).unwrap();
    }

    // proves: F11
    #[test]
    fn what_is_no_ordinary_file_is_waited_for_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let file = pipe.display();
        for text in [
            format!("[tls]\ncertificate = \"{file}\"\nkey = \"/k\"\nclient_ca = \"/a\""),
            format!("[api_tls]\ncertificate = \"{file}\"\nkey = \"/k\""),
        ] {
            let message = check(&text).expect_err("a pipe");
            assert!(message.contains(&format!("{file}: it is not an ordinary file")), "{message}");
        }
        let message = check_config(Some(&pipe)).expect_err("a pipe");
        assert!(message.contains("not an ordinary file"), "{message}");
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_key() {
        for (text, parts) in [
            ("# key\nlog = \"a=b=c\"", ["hotset.toml, line 2, log: ", "a=b=c"]),
            (
                "[tls]\nkey = \"/k\"\ncertificate = \"/nowhere/c\"\nclient_ca = \"/a\"",
                ["line 3, [tls] certificate: ", "/nowhere/c"],
            ),
            (
                "tls.key = \"/k\"\ntls.certificate = \"/dev/null\"\ntls.client_ca = \"/a\"",
                ["line 2, [tls] certificate: ", "/dev/null"],
            ),
            (
                "[api_tls]\ncertificate = \"/nowhere/c\"\nkey = \"/k\"",
                ["line 2, [api_tls] certificate: ", "/nowhere/c"],
            ),
            (
                "[notices]\nweb_hook = \"https://a/\"\nweb_hook_token_file = \"/nowhere/t\"",
                ["line 3, [notices] web_hook_token_file: ", "/nowhere/t"],
            ),
            (
                "[notices]\nweb_hook = \"https://a/\"\nweb_hook_ca = \"/nowhere/t\"",
                ["line 3, [notices] web_hook_ca: ", "/nowhere/t"],
            ),
            ("state = \"/a\"\nthreads = 65", ["hotset.toml, line 2", "threads 65"]),
        ] {
            let message = check(text).expect_err(text);
            parts.iter().for_each(|part| assert!(message.contains(part), "{text}: {message}"));
        }
        assert!(
            check_config(Some(Path::new("/nowhere/hotset.toml")))
                .expect_err("no file")
                .contains("/nowhere/hotset.toml")
        );
    }
}

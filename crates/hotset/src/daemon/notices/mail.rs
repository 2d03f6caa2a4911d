//! A notice is handed to a mail server.

use std::sync::mpsc;
use std::time::Duration;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Message, SmtpTransport, Transport as _};

use super::failure::DeliveryFailure;
use super::notice::Notice;
use super::trust::authorities;
use crate::daemon::notice_settings::{Mail, Security, sender_at};
use crate::{given_file, running_time};

/// Exchanges that a mail takes; each may take the time limit.
const EXCHANGES: u32 = 3;

/// Answers what the server said. Blocks for a limited time: a server that answers byte for byte goes on with a thread of its own.
pub(super) fn send(mail: &Mail, notice: &Notice, limit: Duration) -> Result<String, DeliveryFailure> {
    let message = message(mail, notice).map_err(|error| DeliveryFailure { what: error, permanent: true })?;
    let transport = transport(mail, notice, limit).map_err(DeliveryFailure::passing)?;
    let (done, sent) = mpsc::channel();
    let thread = std::thread::Builder::new().name("mail".to_owned()).spawn(move || {
        let _ = done.send(transport.send(&message));
    });
    thread.map_err(|error| DeliveryFailure::passing(format!("no thread: {error}")))?;
    let late =
        || DeliveryFailure::passing(format!("it did not take the mail within {} s", (limit * EXCHANGES).as_secs()));
    let sent = running_time::receive(&sent, limit * EXCHANGES).ok_or_else(late)?;
    match sent {
        Ok(response) => {
            let said: Vec<&str> = response.message().collect();
            Ok(format!("{} {}", response.code(), said.join(" ")).trim().to_owned())
        }
        Err(error) => Err(DeliveryFailure { what: with_sources(&error), permanent: error.is_permanent() }),
    }
}

fn message(mail: &Mail, notice: &Notice) -> Result<Message, String> {
    let mut builder = Message::builder()
        .from(mail.from.clone().unwrap_or_else(|| sender_at(&notice.machine)))
        .subject(notice.headline())
        .header(ContentType::TEXT_PLAIN);
    for to in &mail.to {
        builder = builder.to(to.clone());
    }
    // Nobody answers it with a note of absence.
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    builder = builder.raw_header(HeaderValue::new(name, "auto-generated".to_owned()));
    builder.body(notice.to_text()).map_err(|error| error.to_string())
}

fn transport(mail: &Mail, notice: &Notice, limit: Duration) -> Result<SmtpTransport, String> {
    let tls = match mail.security {
        Security::None => Tls::None,
        Security::StartTls => Tls::Required(tls_parameters(mail)?),
        Security::Tls => Tls::Wrapper(tls_parameters(mail)?),
    };
    let mut builder = SmtpTransport::builder_dangerous(mail.host.clone())
        .port(mail.port)
        .tls(tls)
        .hello_name(ClientId::Domain(sender_at(&notice.machine).email.domain().to_owned()))
        .timeout(Some(limit));
    if let Some((user, file)) = &mail.login {
        let password =
            given_file::read_text(file).map_err(|error| format!("smtp_password_file {}: {error}", file.display()))?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        builder = builder.credentials(Credentials::new(user.clone(), password));
    }
    Ok(builder.build())
}

fn tls_parameters(mail: &Mail) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(mail.host.clone()).certificate_store(CertificateStore::None);
    for authority in authorities(mail.ca.as_deref())? {
        let certificate = Certificate::from_der(authority.to_vec()).map_err(|error| error.to_string())?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build().map_err(|error| error.to_string())
}

/// The reason is in what is behind an error.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    words
}

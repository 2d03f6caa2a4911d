//! A notice is handed to a mail server.

use std::sync::mpsc;
use std::time::Duration;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{Certificate, CertificateStore, SmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::{ClientId, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Response;
use lettre::{Address, Message};

use super::delivery::{Delivery, DeliveryFailure};
use super::notice::Notice;
use super::trust::authorities;
use crate::daemon::notice_settings::{Mail, Security, sender_at};
use crate::{given_file, running_time};

/// Exchanges that a mail takes beside one for each recipient: greeting, EHLO twice, STARTTLS, AUTH, MAIL, DATA, the text. Each may take
/// the time limit.
const EXCHANGES: u32 = 8;

/// `insists`: nobody gets it while one of several is refused for now. Blocks for a limited time: a server that answers byte for byte goes on with a thread of its own.
pub(super) fn send(mail: &Mail, notice: &Notice, insists: bool, limit: Duration) -> Result<Delivery, DeliveryFailure> {
    let letter = Letter::of(mail, notice).map_err(|error| DeliveryFailure { what: error, permanent: true })?;
    let server = Server::of(mail, notice, limit).map_err(DeliveryFailure::passing)?;
    let limit = limit * (EXCHANGES + u32::try_from(mail.to.len()).unwrap_or(u32::MAX));
    let (done, sent) = mpsc::channel();
    let thread = std::thread::Builder::new().name("mail".to_owned()).spawn(move || {
        let _ = done.send(server.take(&letter, insists));
    });
    thread.map_err(|error| DeliveryFailure::passing(format!("no thread: {error}")))?;
    let late = || DeliveryFailure::passing(format!("it did not take the mail within {} s", limit.as_secs()));
    running_time::receive(&sent, limit).ok_or_else(late)?
}

/// A mail that is ready to be sent.
struct Letter {
    from: Address,
    to: Vec<Address>,
    text: Vec<u8>,
}

impl Letter {
    fn of(mail: &Mail, notice: &Notice) -> Result<Self, String> {
        let from = sender(mail, notice);
        let message = message(mail, notice, &from)?;
        let to = mail.to.iter().map(|to| to.email.clone()).collect();
        Ok(Self { from: from.email, to, text: message.formatted() })
    }

    /// What the server has to be able to do (RFC 6531, RFC 6152).
    fn parameters(&self) -> Vec<MailParameter> {
        let addresses = self.to.iter().chain([&self.from]);
        let international = addresses.into_iter().any(|address| !address.to_string().is_ascii());
        let international = international.then_some(MailParameter::SmtpUtfEight);
        let eight_bits = (!self.text.is_ascii()).then_some(MailParameter::Body(MailBodyParameter::EightBitMime));
        international.into_iter().chain(eight_bits).collect()
    }
}

fn sender(mail: &Mail, notice: &Notice) -> Mailbox {
    mail.from.clone().unwrap_or_else(|| sender_at(&notice.machine))
}

fn message(mail: &Mail, notice: &Notice, from: &Mailbox) -> Result<Message, String> {
    let builder = Message::builder()
        .message_id(Some(format!("<{}@{}>", notice.identifier(), from.email.domain())))
        .from(from.clone())
        .subject(notice.headline())
        .header(ContentType::TEXT_PLAIN);
    let builder = mail.to.iter().cloned().fold(builder, MessageBuilder::to);
    // Nobody answers it with a note of absence.
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    let builder = builder.raw_header(HeaderValue::new(name, "auto-generated".to_owned()));
    builder.body(notice.to_text()).map_err(|error| error.to_string())
}

/// What a client says of itself: a name with a domain, which many servers ask for.
fn hello_name(mail: &Mail, machine: &str) -> ClientId {
    let own = sender_at(machine).email.domain().to_owned();
    let name = match &mail.from {
        Some(from) if !own.contains('.') => format!("{own}.{}", from.email.domain()),
        _ => own,
    };
    ClientId::Domain(name)
}

/// All that has to be read before anybody is called.
struct Server {
    place: (String, u16),
    security: Security,
    tls: Option<TlsParameters>,
    hello: ClientId,
    credentials: Option<Credentials>,
    /// Of one exchange.
    limit: Duration,
}

impl Server {
    fn of(mail: &Mail, notice: &Notice, limit: Duration) -> Result<Self, String> {
        let tls = match mail.security {
            Security::None => None,
            Security::StartTls | Security::Tls => Some(tls_parameters(mail)?),
        };
        let credentials = mail.login.as_ref().map(|(user, file)| {
            let password = given_file::read_text(file)
                .map_err(|error| format!("smtp_password_file {}: {error}", file.display()))?;
            Ok::<_, String>(Credentials::new(user.clone(), password.trim_end_matches(['\r', '\n']).to_owned()))
        });
        Ok(Self {
            place: (mail.host.clone(), mail.port),
            security: mail.security,
            tls,
            hello: hello_name(mail, &notice.machine),
            credentials: credentials.transpose()?,
            limit,
        })
    }

    fn connect(&self) -> Result<SmtpConnection, SmtpError> {
        let place = (self.place.0.as_str(), self.place.1);
        let at_once = self.tls.as_ref().filter(|_| self.security == Security::Tls);
        let mut connection = SmtpConnection::connect(place, Some(self.limit), &self.hello, at_once, None)?;
        if let Some(tls) = self.tls.as_ref().filter(|_| self.security == Security::StartTls) {
            connection.starttls(tls, &self.hello)?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials)?;
        }
        Ok(connection)
    }

    /// In one transaction; who is refused does not keep it from the others.
    fn take(&self, letter: &Letter, insists: bool) -> Result<Delivery, DeliveryFailure> {
        let mut connection = self.connect().map_err(mendable)?;
        let outcome = Self::transfer(&mut connection, letter, insists);
        match &outcome {
            Ok(_) => drop(connection.quit()),
            Err(_) => connection.abort(),
        }
        outcome
    }

    fn transfer(connection: &mut SmtpConnection, letter: &Letter, insists: bool) -> Result<Delivery, DeliveryFailure> {
        connection.command(MailFrom::new(Some(letter.from.clone()), letter.parameters())).map_err(mendable)?;
        let mut refused = Vec::new();
        for to in &letter.to {
            if let Err(error) = connection.command(Rcpt::new(to.clone(), Vec::new())) {
                let why = format!("{to}: {}", with_sources(&error));
                // Without a status it is not the server's answer: nothing more comes from it.
                if error.status().is_none() || (insists && !error.is_permanent()) {
                    return Err(DeliveryFailure::passing(why));
                }
                refused.push(why);
            }
        }
        if refused.len() == letter.to.len() {
            return Err(DeliveryFailure::passing(format!("it takes mail for nobody: {}", refused.join("; "))));
        }
        let of_text =
            |error: SmtpError| DeliveryFailure { what: with_sources(&error), permanent: error.is_permanent() };
        connection.command(Data).map_err(of_text)?;
        let response = connection.message(&letter.text).map_err(of_text)?;
        Ok(Delivery { answer: answer(&response), refused })
    }
}

/// A wrong name, password or certificate: then the same mail is taken.
fn mendable(error: SmtpError) -> DeliveryFailure {
    DeliveryFailure::passing(with_sources(&error))
}

fn answer(response: &Response) -> String {
    let said: Vec<&str> = response.message().collect();
    format!("{} {}", response.code(), said.join(" ")).trim().to_owned()
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::daemon::notice_settings::NoticeSettings;

    /// Takes one mail, and refuses recipients whose address has "gone" in it, and for now those with "full". Returns what it was told.
    fn take_one(stream: TcpStream) -> Vec<String> {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let mut stream = stream;
        let mut say = |line: &str| stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut told = Vec::new();
        say("220 sink");
        while let Some(line) = lines.next() {
            match line.split_whitespace().next().unwrap_or_default() {
                "RCPT" if line.contains("gone") => say("550 5.1.1 no such mailbox"),
                "RCPT" if line.contains("full") => say("452 4.2.2 mailbox full"),
                "DATA" => {
                    say("354 go on");
                    told.extend(lines.by_ref().take_while(|line| line != "."));
                    say("250 taken");
                }
                "QUIT" => {
                    say("221 bye");
                    break;
                }
                _ => say("250 ok"),
            }
            told.push(line);
        }
        told
    }

    fn send_to(to: &str, insists: bool) -> (Result<Delivery, DeliveryFailure>, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sink = std::thread::spawn(move || take_one(listener.accept().unwrap().0));
        let table = format!(
            "mail_to = [{to}]\nmail_from = \"hotset@example.org\"\nsmtp_host = \"127.0.0.1\"\nsmtp_port = {port}\nsmtp_security = \"none\""
        );
        let settings = NoticeSettings::of(toml::from_str(&table).unwrap()).unwrap();
        let outcome = send(settings.mail.as_ref().unwrap(), &Notice::test(), insists, Duration::from_secs(60));
        (outcome, sink.join().unwrap())
    }

    // proves: O4
    #[test]
    fn a_recipient_who_is_refused_keeps_the_mail_from_nobody_else() {
        let (outcome, told) = send_to("\"gone@example.org\", \"here@example.org\"", true);
        let delivery = outcome.unwrap();
        assert_eq!(delivery.answer, "250 taken");
        assert!(delivery.refused.len() == 1 && delivery.refused[0].contains("gone@example.org: "), "{delivery:?}");
        assert!(delivery.refused[0].contains("no such mailbox"), "{delivery:?}");
        let says = |part: &str| told.iter().any(|line| line.contains(part));
        assert!(says("Message-ID: <hotset-notice-") && says("@example.org>"), "{told:?}");
        assert!(told[0].starts_with("EHLO ") && told[0].contains('.'), "a name with a domain: {told:?}");
    }

    // proves: O4
    #[test]
    fn where_all_are_refused_the_mail_is_sent_again_later() {
        let failure = send_to("\"gone@example.org\"", false).0.expect_err("nobody has it");
        assert!(!failure.permanent && failure.what.contains("no such mailbox"), "{failure:?}");
    }

    // proves: O4
    #[test]
    fn one_who_is_refused_for_now_is_asked_for_again_and_in_the_end_the_others_get_it() {
        let to = "\"here@example.org\", \"full@example.org\"";
        let (outcome, told) = send_to(to, true);
        let failure = outcome.expect_err("not for all");
        assert!(!failure.permanent && failure.what.contains("full@example.org: "), "{failure:?}");
        assert!(!told.iter().any(|line| line == "DATA"), "nobody gets it twice: {told:?}");
        let delivery = send_to(to, false).0.unwrap();
        assert!(delivery.refused[0].contains("mailbox full"), "{delivery:?}");
    }
}

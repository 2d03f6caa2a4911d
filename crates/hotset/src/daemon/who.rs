//! Who asks for what is being done now: known from the door by which a request came, and told with what it changes.

use std::fmt;
use std::path::Path;

use tokio::task_local;

use crate::given_file;

task_local! {
    static ASKING: Who;
}

/// See the file's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Who {
    /// Nobody: it follows from what happened, or goes on after a start.
    #[default]
    Daemon,
    /// Over the unix socket.
    User { number: u32, console: bool },
    /// Whoever has the token of this name.
    Token { name: String, console: bool },
    /// Over loopback, without a token.
    ThisMachine { console: bool },
}

impl Who {
    /// Who asks for what the task does that calls this.
    pub(crate) fn asks() -> Self {
        ASKING.try_with(Clone::clone).unwrap_or_default()
    }

    /// Does `work` because they ask for it. A task that this spawns has to be told anew.
    pub(crate) async fn have<T>(self, work: impl Future<Output = T>) -> T {
        ASKING.scope(self, work).await
    }

    /// For events; empty for the daemon.
    pub(crate) fn words(&self) -> String {
        if *self == Self::Daemon { String::new() } else { self.to_string() }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, console) = match self {
            Self::Daemon => ("the daemon".to_owned(), false),
            Self::User { number, console } => match user_name(*number) {
                Some(name) => (format!("user {name}"), *console),
                None => (format!("user {number}"), *console),
            },
            Self::Token { name, console } => (format!("token {name}"), *console),
            Self::ThisMachine { console } => ("somebody on this machine".to_owned(), *console),
        };
        f.write_str(&who)?;
        if console { f.write_str(", by the console") } else { Ok(()) }
    }
}

/// As /etc/passwd has it (passwd(5)).
fn user_name(number: u32) -> Option<String> {
    let users = given_file::read_text(Path::new("/etc/passwd")).ok()?;
    name_in(&users, number).map(str::to_owned)
}

fn name_in(users: &str, number: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: O4
    #[tokio::test]
    async fn who_asks_is_known_where_it_is_done_and_nowhere_else() {
        assert_eq!(Who::asks(), Who::Daemon);
        let token = Who::Token { name: "backup".to_owned(), console: true };
        let within = token.clone().have(async { Who::asks() }).await;
        assert_eq!((within, Who::asks()), (token.clone(), Who::Daemon));
        assert_eq!((token.words().as_str(), Who::Daemon.words().as_str()), ("token backup, by the console", ""));
        assert_eq!(Who::ThisMachine { console: false }.words(), "somebody on this machine");
    }

    #[test]
    fn a_user_has_the_name_that_the_machine_knows() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000::/:/bin/sh\n";
        assert_eq!((name_in(users, 0), name_in(users, 1000), name_in(users, 7)), (Some("root"), Some("ada"), None));
        let unknown = Who::User { number: u32::MAX, console: false };
        assert_eq!(unknown.words(), format!("user {}", u32::MAX));
    }
}

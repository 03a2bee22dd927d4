//! One error, as text and as JSON, with its exit code.
//!
//! Owns the mapping from every error that reaches the command line to what a
//! person reads and what the program ends with. Colour never carries meaning.

use serde::Serialize;

use super::print;
use crate::config::ConfigError;
use crate::executor;
use crate::model::ExitCode;
use crate::report;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(super) struct Failure {
    code: ExitCode,
    message: String,
    hint: Option<String>,
    place: Place,
}

/// Where in a file something is wrong.
#[derive(Debug, Default, Serialize)]
pub(super) struct Place {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    exit_code: u8,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(flatten)]
    place: &'a Place,
}

impl Failure {
    /// The request itself is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// With this code.
    pub(super) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            place: Place::default(),
        }
    }

    /// Adds what to do about it.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it the way that was asked for, and says what to end with.
    pub(super) fn print(&self, json: bool) -> ExitCode {
        print::err_line(&format!("cofferdam: {}", report::plain(&self.message)));
        if let Some(hint) = &self.hint {
            print::err_line(&format!("  hint: {}", report::plain(hint)));
        }
        if json {
            print::document(&Document {
                schema: "cofferdam.error/1",
                exit_code: self.code.number(),
                message: &self.message,
                hint: self.hint.as_deref(),
                place: &self.place,
            });
        }
        self.code
    }
}

impl From<executor::Error> for Failure {
    fn from(error: executor::Error) -> Self {
        Self {
            code: error.exit_code(),
            message: error.chain(),
            hint: error.hint().map(str::to_owned),
            place: Place::default(),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self {
            code: error.exit_code(),
            message: chain(&error),
            hint: error.hint().map(str::to_owned),
            place: Place {
                path: error.path().map(|path| path.to_string_lossy().into_owned()),
                line: error.line(),
                key: error.key().map(str::to_owned),
            },
        }
    }
}

fn chain(error: &ConfigError) -> String {
    let mut text = format!("failed to {error}");
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// What clap says: help and version are no failure; the rest is, and is told
/// as JSON where the arguments ask for that.
pub(super) fn of_arguments(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print::out(&error.render().to_string());
            ExitCode::Success
        }
        _ => {
            let text = error.render().to_string();
            let json = std::env::args_os()
                .take_while(|word| word != "--")
                .any(|word| word == "--json");
            if json {
                let first = text
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                return Failure::usage(first)
                    .hint("see `cofferdam --help`")
                    .print(true);
            }
            print::err_line(text.trim_end());
            ExitCode::Usage
        }
    }
}

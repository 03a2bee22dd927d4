//! Owns the command line for people: one program without some features.
//!
//! `cofferdam-shim no-landlock,no-mounts -- cofferdam doctor`

use std::process::{Command, ExitCode};

use cofferdam_shim::{Feature, take_away};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [features, separator, program, rest @ ..] = &arguments[..] else {
        return usage("too few arguments");
    };
    let features: Result<Vec<Feature>, _> = features.split(',').map(str::parse).collect();
    let features = match features {
        Ok(features) if separator == "--" => features,
        Ok(_) => return usage("`--` is missing"),
        Err(error) => return usage(&error),
    };
    let mut command = Command::new(program);
    command.args(rest);
    let ended = take_away(&features, &mut command).and_then(|()| command.status());
    match ended {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => usage(&format!("failed to start `{program}`: {error}")),
    }
}

#[expect(clippy::print_stderr, reason = "this is a program of its own")]
fn usage(error: &str) -> ExitCode {
    eprintln!("error: {error}\nusage: cofferdam-shim FEATURE[,FEATURE…] -- PROGRAM [ARGUMENT…]");
    ExitCode::from(2)
}

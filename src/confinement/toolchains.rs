//! Toolchains of the person: what of them is read, what is built upon.
//!
//! Owns the tables. A toolchain's programs are shown where they are,
//! read-only. A cache of packages is shown in the agent's private home, where
//! the tool looks for it by itself, and can be written there: what the agent
//! adds or changes lands in a private directory and goes with it. No entry
//! reaches a file that holds a credential, and [`NEVER`] lists those that no
//! entry may reach.
//!
//! Not shown on purpose: caches of what was *built* (`go-build`, sccache,
//! Gradle's build cache) hold other projects of the person. Configuration of
//! tools (`config.toml` of cargo, `settings.xml`, `.npmrc`, `pip.conf` …) may
//! hold tokens and passwords; only [`PLAIN_FILES`] and the keys in
//! [`SETTINGS`] are copied. Git's identity,
//! name and mail address alone, is written into the private home with the
//! workspace.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::readable::may_hold_packages;

/// A toolchain beneath the home directory, read-only where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toolchain {
    /// Its directory, relative to the home directory.
    pub directory: &'static str,
    /// What of it is readable; empty means all of it.
    pub parts: &'static [&'static str],
    /// The variable by which its programs find it; it is set to the directory.
    pub variable: Option<&'static str>,
}

impl Toolchain {
    /// Where it lies: where its variable says, if that is a place that may be
    /// looked into, else at its usual place beneath the home directory.
    pub(super) fn root(&self, home: &Path, variables: &BTreeMap<OsString, OsString>) -> PathBuf {
        let named = self
            .variable
            .and_then(|name| variables.get(OsStr::new(name)));
        match named.map(Path::new) {
            Some(directory)
                if may_be_read(home, directory) && may_hold_packages(directory, &[]) =>
            {
                directory.to_owned()
            }
            Some(_) | None => home.join(self.directory),
        }
    }
}

const fn whole(directory: &'static str, variable: Option<&'static str>) -> Toolchain {
    Toolchain {
        directory,
        parts: &[],
        variable,
    }
}

const fn parts(
    directory: &'static str,
    parts: &'static [&'static str],
    variable: Option<&'static str>,
) -> Toolchain {
    Toolchain {
        directory,
        parts,
        variable,
    }
}

/// The toolchains that are looked for.
pub const TOOLCHAINS: &[Toolchain] = &[
    // Next to these lies `credentials.toml`, so the directory is not whole.
    parts(".cargo", &["bin", "env"], None),
    whole(".rustup", Some("RUSTUP_HOME")),
    whole(".nvm", Some("NVM_DIR")),
    whole(".fnm", None),
    whole(".nodenv", Some("NODENV_ROOT")),
    whole(".volta", Some("VOLTA_HOME")),
    parts(".npm-global", &["bin", "lib"], None),
    whole(".bun/bin", None),
    whole(".deno/bin", None),
    whole(".pyenv", Some("PYENV_ROOT")),
    whole(".rbenv", Some("RBENV_ROOT")),
    whole(".goenv", Some("GOENV_ROOT")),
    whole(".sdkman", Some("SDKMAN_DIR")),
    whole(".jenv", Some("JENV_ROOT")),
    whole(".asdf", Some("ASDF_DATA_DIR")),
    whole(".ghcup", None),
    whole(".opam", Some("OPAMROOT")),
    whole(".juliaup", None),
    // Private keys of certificates lie beside these.
    parts(
        ".dotnet",
        &[
            "dotnet",
            "host",
            "packs",
            "sdk",
            "sdk-manifests",
            "shared",
            "templates",
            "tools",
        ],
        Some("DOTNET_ROOT"),
    ),
    parts("miniconda3", CONDA, None),
    parts("miniforge3", CONDA, None),
    parts("go", &["bin"], None),
    // Beside these uv keeps what `uv auth login` was given.
    whole(".local/share/uv/python", Some("UV_PYTHON_INSTALL_DIR")),
    whole(".local/share/mise", Some("MISE_DATA_DIR")),
    parts(
        ".local",
        &[
            "bin",
            "lib",
            "share/fnm",
            "share/pipx",
            "share/pnpm",
            "share/rtx",
            "share/uv/tools",
        ],
        None,
    ),
];

/// What conda runs from; `.condarc` beside it may hold tokens.
const CONDA: &[&str] = &[
    "bin",
    "condabin",
    "conda-meta",
    "envs",
    "etc",
    "include",
    "lib",
    "pkgs",
    "share",
    "ssl",
];

/// Files within toolchains that may log the person in, by the directory of
/// the toolchain; `*` is any one name. A view covers each; in place nothing can.
///
/// Not among them: Maven's own `conf/settings.xml`, which every installation
/// has and which Maven does not start without.
pub const MASKS: &[(&str, &[&str])] = &[
    (".nvm", &["versions/node/*/etc/npmrc"]),
    (".fnm", &["node-versions/*/installation/etc/npmrc"]),
    (".nodenv", &["versions/*/etc/npmrc"]),
    (".volta", &["tools/image/node/*/etc/npmrc"]),
    (
        ".pyenv",
        &["versions/*/pip.conf", "versions/*/envs/*/pip.conf"],
    ),
    (".rbenv", &["versions/*/etc/gemrc"]),
    (
        ".asdf",
        &[
            "installs/nodejs/*/etc/npmrc",
            "installs/python/*/pip.conf",
            "installs/ruby/*/etc/gemrc",
        ],
    ),
    ("miniconda3", CONDA_LOGINS),
    ("miniforge3", CONDA_LOGINS),
    (".local/share/uv/python", &["*/pip.conf"]),
    (
        ".local/share/mise",
        &[
            "installs/node/*/etc/npmrc",
            "installs/python/*/pip.conf",
            "installs/ruby/*/etc/gemrc",
        ],
    ),
    (
        ".local",
        &[
            "share/fnm/node-versions/*/installation/etc/npmrc",
            "share/pipx/venvs/*/pip.conf",
            "share/rtx/installs/node/*/etc/npmrc",
            "share/rtx/installs/python/*/pip.conf",
            "share/uv/tools/*/pip.conf",
        ],
    ),
];

const CONDA_LOGINS: &[&str] = &[
    ".condarc",
    "condarc",
    "condarc.d/*",
    "etc/npmrc",
    "pip.conf",
    "envs/*/.condarc",
    "envs/*/condarc",
    "envs/*/condarc.d/*",
    "envs/*/etc/npmrc",
    "envs/*/pip.conf",
];

/// The table [`MASKS`] for a person: where each toolchain lies, and a pattern
/// beneath it.
pub fn masks(
    home: &Path,
    variables: &BTreeMap<OsString, OsString>,
) -> impl Iterator<Item = (PathBuf, &'static str)> {
    TOOLCHAINS.iter().flat_map(move |toolchain| {
        let root = toolchain.root(home, variables);
        let own = MASKS
            .iter()
            .filter(|(name, _)| *name == toolchain.directory);
        own.flat_map(|(_, patterns)| patterns.iter())
            .map(move |pattern| (root.clone(), *pattern))
            .collect::<Vec<_>>()
    })
}

/// Packages that a tool has fetched, to be built upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Where it is shown, beneath the agent's private home: the place at which
    /// the tool looks with the variables that the agent has. It is the usual
    /// place beneath the person's home as well.
    pub directory: &'static str,
    /// Variables that move it, the strongest first, and where it lies beneath
    /// the directory that each one names.
    pub moved: &'static [(&'static str, &'static str)],
}

const fn cache(directory: &'static str, moved: Moved) -> Cache {
    Cache { directory, moved }
}

impl Cache {
    /// Where the person has it, whether or not there is anything.
    #[must_use]
    pub fn place(&self, home: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
        place(self.moved, variable).unwrap_or_else(|| home.join(self.directory))
    }
}

/// Where variables say that something lies; a relative value would mean
/// another place for each directory, so it says nothing.
fn place(moved: Moved, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    moved.iter().find_map(|(name, rest)| {
        let directory = variable(name)?;
        directory.is_absolute().then(|| directory.join(rest))
    })
}

/// Variables that move something, the strongest first, and where it lies
/// beneath the directory that each one names.
type Moved = &'static [(&'static str, &'static str)];

/// The caches that are looked for.
pub const CACHES: &[Cache] = &[
    cache(".cargo/registry", &[("CARGO_HOME", "registry")]),
    cache(".cargo/git", &[("CARGO_HOME", "git")]),
    cache("go/pkg/mod", &[("GOMODCACHE", ""), ("GOPATH", "pkg/mod")]),
    cache(
        ".npm/_cacache",
        &[
            ("npm_config_cache", "_cacache"),
            ("NPM_CONFIG_CACHE", "_cacache"),
        ],
    ),
    cache(
        ".cache/yarn",
        &[("YARN_CACHE_FOLDER", ""), ("XDG_CACHE_HOME", "yarn")],
    ),
    cache(".yarn/berry/cache", &[]),
    cache(
        ".local/share/pnpm/store",
        &[("PNPM_HOME", "store"), ("XDG_DATA_HOME", "pnpm/store")],
    ),
    cache(
        ".bun/install/cache",
        &[
            ("BUN_INSTALL_CACHE_DIR", ""),
            ("BUN_INSTALL", "install/cache"),
        ],
    ),
    // Beside these deno keeps what programs stored (`localStorage`).
    cache(
        ".cache/deno/npm",
        &[("DENO_DIR", "npm"), ("XDG_CACHE_HOME", "deno/npm")],
    ),
    cache(
        ".cache/deno/remote",
        &[("DENO_DIR", "remote"), ("XDG_CACHE_HOME", "deno/remote")],
    ),
    cache(
        ".cache/pip",
        &[("PIP_CACHE_DIR", ""), ("XDG_CACHE_HOME", "pip")],
    ),
    cache(
        ".cache/uv",
        &[("UV_CACHE_DIR", ""), ("XDG_CACHE_HOME", "uv")],
    ),
    cache(".m2/repository", &[]),
    cache(
        ".gradle/caches/modules-2",
        &[("GRADLE_USER_HOME", "caches/modules-2")],
    ),
    cache(
        ".gradle/wrapper/dists",
        &[("GRADLE_USER_HOME", "wrapper/dists")],
    ),
    cache(".ivy2/cache", &[]),
    cache(
        ".cache/coursier",
        &[("COURSIER_CACHE", ""), ("XDG_CACHE_HOME", "coursier")],
    ),
    cache(".nuget/packages", &[("NUGET_PACKAGES", "")]),
    cache(".pub-cache/hosted", &[("PUB_CACHE", "hosted")]),
    cache(".hex/packages", &[("HEX_HOME", "packages")]),
    cache(".cabal/packages", &[("CABAL_DIR", "packages")]),
];

/// Variables that make a tool look into the private home, where it would not
/// by itself, and the directory there that each one names.
pub(super) const PRIVATE: &[(&str, &str)] = &[
    ("CARGO_HOME", ".cargo"),
    // Java asks the system for the home directory and not the environment.
    ("GRADLE_USER_HOME", ".gradle"),
];

/// Files that choose a version of a tool and hold nothing else; each is
/// copied into the private home.
pub const PLAIN_FILES: &[&str] = &[".tool-versions"];

/// Of a tool's configuration, what it cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The file, in TOML, beneath the person's home and the private one.
    pub file: &'static str,
    /// Variables that move it, as with a [`Cache`].
    pub moved: &'static [(&'static str, &'static str)],
    /// The keys that are copied, each by its path; `*` is any name.
    pub keys: &'static [&'static [&'static str]],
}

impl Settings {
    /// Where the person has it, whether or not there is anything.
    #[must_use]
    pub fn place(&self, home: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
        place(self.moved, variable).unwrap_or_else(|| home.join(self.file))
    }
}

/// The configuration of which a part is copied. Values that hold a user's
/// name or password of an address are left out whatever their key.
pub const SETTINGS: &[Settings] = &[
    // Without them cargo looks for the packages of another registry than the
    // one that they were fetched from. A registry's `token` is not among them.
    Settings {
        file: ".cargo/config.toml",
        moved: &[("CARGO_HOME", "config.toml")],
        keys: &[
            &["source", "*", "registry"],
            &["source", "*", "replace-with"],
            &["source", "*", "directory"],
            &["source", "*", "local-registry"],
            &["registries", "*", "index"],
            &["registries", "*", "protocol"],
        ],
    },
    // Its `[env]` may hold anything, the versions are only versions.
    Settings {
        file: ".config/mise/config.toml",
        moved: &[
            ("MISE_CONFIG_DIR", "config.toml"),
            ("XDG_CONFIG_HOME", "mise/config.toml"),
        ],
        keys: &[&["tools", "*"]],
    },
];

/// What beneath the home directory is never readable, even if `PATH` or a
/// variable leads there.
pub const NEVER: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".boto",
    ".bundle/config",
    ".bunfig.toml",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".conda",
    ".condarc",
    ".config/configstore",
    ".config/containers",
    ".config/gcloud",
    ".config/gh",
    ".config/git",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/go",
    ".config/helm",
    ".config/hub",
    ".config/mise",
    ".config/op",
    ".config/pip",
    ".config/pnpm",
    ".config/pypoetry",
    ".config/rclone",
    ".config/sops",
    ".config/uv",
    ".docker",
    ".dotnet/corefx",
    ".gem/credentials",
    ".git-credentials",
    ".gitconfig",
    ".gnupg",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".hex/hex.config",
    ".ivy2/.credentials",
    ".kube",
    ".local/share/gem/credentials",
    ".local/share/keyrings",
    ".local/share/uv/credentials",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".nuget/NuGet",
    ".password-store",
    ".pgpass",
    ".pip",
    ".pub-cache/credentials.json",
    ".pypirc",
    ".s3cfg",
    ".sbt",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".yarnrc",
    ".yarnrc.yml",
];

/// Whether a directory that a variable names may be looked into: absolute,
/// not the home directory or one above it, and none that holds or lies in a
/// secret place.
#[must_use]
pub fn may_be_read(home: &Path, directory: &Path) -> bool {
    let plain = directory.is_absolute()
        && directory
            .components()
            .all(|part| part != Component::ParentDir);
    let secret = NEVER.iter().any(|name| {
        let never = home.join(name);
        directory.starts_with(&never) || never.starts_with(directory)
    });
    plain && !secret
}

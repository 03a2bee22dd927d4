//! `cofferdam doctor`: what this machine enforces, by trying it.
//!
//! Owns the rendering of a live probe: every layer is applied for real in a
//! throw-away child, and the guarantees follow from what was achieved. With
//! `--repair` dead runs are recovered as well.

use cofferdam_sandbox::guarantees::{Holder, held};
use cofferdam_sandbox::{Enforcement, Feature, Guarantee, Layer, Status};
use serde::Serialize;

use super::args::DoctorArgs;
use super::failure::Failure;
use super::{print, surroundings};
use crate::confinement::{self, Waivers};
use crate::model::{ExitCode, LeftOver, NetworkAccess};
use crate::report;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    exit_code: u8,
    git: String,
    layers: Vec<LayerLine>,
    guarantees: Vec<GuaranteeLine>,
    holes: Vec<String>,
    /// Why refusals of some layers are not recorded here.
    unrecorded: Vec<String>,
    stale: Vec<String>,
    recovered: Vec<String>,
    left: Vec<LeftOver>,
}

#[derive(Serialize)]
struct LayerLine {
    layer: String,
    required: bool,
    status: &'static str,
    missing: Vec<String>,
    probe: String,
}

#[derive(Serialize)]
struct GuaranteeLine {
    guarantee: String,
    held_by: Vec<String>,
    status: &'static str,
    required: bool,
    /// What would hold it, where nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<String>,
    /// How to get that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    how: Vec<&'static str>,
    /// What was attempted from inside, without success.
    tried: Vec<String>,
}

/// Tries the layers, and repairs where that is asked for.
pub(super) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let executor = surroundings::executor()?;
    let found = executor.probe()?;
    let stale = if args.repair {
        Vec::new()
    } else {
        executor.stale()?
    };
    let recovered = if args.repair {
        executor.recover()?
    } else {
        Vec::new()
    };
    let left: Vec<LeftOver> = recovered
        .iter()
        .flat_map(|run| run.report.left.clone())
        .collect();
    let layers: Vec<LayerLine> = Layer::ALL
        .iter()
        .map(|layer| layer_line(*layer, &found))
        .collect();
    let guarantees = guarantees(&found);
    let weak = is_weak(&layers, &guarantees);
    let code = match (weak, left.is_empty()) {
        (_, false) => ExitCode::Cleanup,
        (true, true) => ExitCode::Isolation,
        (false, true) => ExitCode::Success,
    };
    let whole = recovered.iter().filter(|run| run.report.complete);
    let document = Document {
        schema: "cofferdam.doctor/1",
        exit_code: code.number(),
        git: executor.git_version(),
        layers,
        guarantees,
        holes: found.holes.clone(),
        unrecorded: confinement::unrecorded(&found),
        stale: stale.iter().map(ToString::to_string).collect(),
        recovered: whole.map(|run| run.run.to_string()).collect(),
        left,
    };
    if args.json {
        print::document(&document);
    } else {
        tell(&document, &found);
    }
    Ok(code)
}

/// Whether a run would be refused here.
fn is_weak(layers: &[LayerLine], guarantees: &[GuaranteeLine]) -> bool {
    let unheld = |line: &GuaranteeLine| line.required && line.held_by.is_empty();
    let absent = |line: &LayerLine| line.required && line.status == "absent";
    guarantees.iter().any(unheld) || layers.iter().any(absent)
}

fn guarantees(found: &Enforcement) -> Vec<GuaranteeLine> {
    let promised = Waivers::default().promised(NetworkAccess::None, &found.features);
    let held = confinement::held(found);
    let line = |guarantee: &Guarantee| {
        let held_by = held.get(guarantee.word()).cloned().unwrap_or_default();
        let bounded = found.features.contains(&Feature::ProcessLimits);
        let status = match guarantee {
            _ if !held_by.is_empty() => "held",
            Guarantee::BoundedResources if bounded => "partial",
            _ => "not held",
        };
        let short = held_by
            .is_empty()
            .then(|| confinement::shortfall(*guarantee, &found.features));
        let tried = found.tried.iter().filter(|one| one.guarantee == *guarantee);
        GuaranteeLine {
            guarantee: guarantee.word().to_owned(),
            status,
            required: promised.contains(guarantee),
            needs: short.as_ref().map(|short| short.needs.clone()),
            how: short.map(|short| short.how).unwrap_or_default(),
            tried: tried.map(|one| one.attempt.clone()).collect(),
            held_by,
        }
    };
    Guarantee::ALL.iter().map(line).collect()
}

fn layer_line(layer: Layer, found: &Enforcement) -> LayerLine {
    let (status, missing) = match found.layers.get(&layer) {
        Some(status @ (Status::Full | Status::Waived)) => (status.word(), Vec::new()),
        Some(status @ Status::Partial { missing }) => (status.word(), missing.clone()),
        Some(status @ Status::Absent { reason }) => (status.word(), vec![reason.clone()]),
        None => ("absent", vec!["the helper did not report it".to_owned()]),
    };
    LayerLine {
        layer: layer.to_string(),
        required: layer == Layer::Landlock,
        status,
        missing,
        probe: probe_of(layer, found),
    }
}

/// What was tried against a layer: it was applied for real, and then every
/// guarantee that it helps to hold was attempted to be broken.
fn probe_of(layer: Layer, found: &Enforcement) -> String {
    let held = held(&found.features);
    let tried: Vec<&str> = found
        .tried
        .iter()
        .filter(|one| held[&one.guarantee].contains(&Holder::Layer(layer)))
        .map(|one| one.attempt.as_str())
        .collect();
    if tried.is_empty() {
        "applied in a child".to_owned()
    } else {
        format!(
            "applied in a child that failed, as it must, to {}",
            tried.join("; ")
        )
    }
}

fn tell(document: &Document, found: &Enforcement) {
    let abi = found
        .landlock_abi
        .map_or("none".to_owned(), |abi| abi.to_string());
    print::out_line(&format!("git {} · Landlock ABI {abi}", document.git));
    print::out_line("");
    for line in &document.layers {
        let required = if line.required { " (required)" } else { "" };
        print::out_line(&format!("{:<14} {}{required}", line.layer, line.status));
        for missing in &line.missing {
            print::out_line(&format!("{:<14} · {}", "", report::plain(missing)));
        }
    }
    print::out_line("");
    for line in &document.guarantees {
        let by = if line.held_by.is_empty() {
            String::new()
        } else {
            format!(" by {}", line.held_by.join(", "))
        };
        print::out_line(&format!("{:<28} {}{by}", line.guarantee, line.status));
        if let Some(needs) = &line.needs {
            print::out_line(&format!("{:<28} · needs {needs}", ""));
        }
        for how in &line.how {
            print::out_line(&format!("{:<28} · to get it: {how}", ""));
        }
    }
    for hole in &document.holes {
        print::out_line(&format!("not covered: {}", report::plain(hole)));
    }
    for reason in &document.unrecorded {
        print::out_line(&format!("denials not recorded: {}", report::plain(reason)));
    }
    for run in &document.stale {
        print::out_line(&format!(
            "{run} is dead and not recovered: cofferdam doctor --repair"
        ));
    }
    for run in &document.recovered {
        print::out_line(&format!("recovered {run}"));
    }
    for left in &document.left {
        print::out_line(&format!(
            "left over: {}: {}",
            report::plain(&left.what),
            report::plain(&left.why)
        ));
    }
}

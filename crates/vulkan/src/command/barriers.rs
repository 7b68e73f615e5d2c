use ash::vk::{AccessFlags as Access, PipelineStageFlags as Stages};
use rehal_hal::{AccessScope, ExecutionStage, MemoryBarrier};

/// A barrier of Vulkan: what waits for what, and which accesses it makes visible.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub(crate) source_stages: Stages,
    pub(crate) target_stages: Stages,
    pub(crate) source_access: Access,
    pub(crate) target_access: Access,
}

impl Barrier {
    /// Orders transfers before it and transfers after it.
    pub(crate) fn for_transfers() -> Self {
        Self {
            source_stages: Stages::TRANSFER,
            target_stages: Stages::TRANSFER,
            source_access: Access::TRANSFER_WRITE,
            target_access: Access::TRANSFER_READ | Access::TRANSFER_WRITE,
        }
    }

    /// The barrier for the arguments of the HAL's. Without memory barriers, it makes visible what the stages
    /// may have written, as on a CPU.
    pub(crate) fn new<'a>(
        source_stages: ExecutionStage,
        target_stages: ExecutionStage,
        memory: impl IntoIterator<Item = &'a MemoryBarrier>,
    ) -> Self {
        let (mut source, mut target) = (AccessScope::empty(), AccessScope::empty());
        for barrier in memory {
            source |= barrier.source_scope;
            target |= barrier.target_scope;
        }
        let (mut source_stages, mut target_stages) =
            (stages(source_stages, true), stages(target_stages, false));
        let (source_access, target_access) = if (source | target).is_empty() {
            (writes_of(source_stages), writes_of(target_stages) | reads_of(target_stages))
        } else {
            source_stages |= stages_of_scope(source);
            target_stages |= stages_of_scope(target);
            (access(source) & writes_of(source_stages), access(target) & all_of(target_stages))
        };
        Self { source_stages, target_stages, source_access, target_access }
    }
}

/// The stages of Vulkan. Stages that no work is in, such as the end of a command, wait for all of it, or make
/// all of it wait.
fn stages(stages: ExecutionStage, is_source: bool) -> Stages {
    let mut found = Stages::empty();
    if stages.contains(ExecutionStage::DISPATCH) {
        found |= Stages::COMPUTE_SHADER;
    }
    if stages.contains(ExecutionStage::TRANSFER) {
        found |= Stages::TRANSFER;
    }
    if stages.contains(ExecutionStage::HOST) {
        found |= Stages::HOST;
    }
    if !is_source && stages.intersects(ExecutionStage::COMMAND_ISSUE | ExecutionStage::COMMAND_PROCESS) {
        // Where workgroup counts are read.
        found |= Stages::DRAW_INDIRECT;
    }
    // The host accesses memory besides commands.
    let all = if is_source { ExecutionStage::COMMAND_RETIRE } else { ExecutionStage::COMMAND_ISSUE };
    let names_work = found.intersects(Stages::COMPUTE_SHADER | Stages::TRANSFER);
    if !names_work && (found.is_empty() || stages.contains(all)) {
        // Commands are dispatches and transfers.
        found |= Stages::COMPUTE_SHADER | Stages::TRANSFER | Stages::DRAW_INDIRECT;
    }
    found
}

/// The stages in which accesses of a scope happen.
fn stages_of_scope(scope: AccessScope) -> Stages {
    let mut found = Stages::empty();
    if scope.contains(AccessScope::INDIRECT_COMMAND_READ) {
        found |= Stages::DRAW_INDIRECT;
    }
    let shader = AccessScope::CONSTANT_READ | AccessScope::DISPATCH_READ | AccessScope::DISPATCH_WRITE;
    if scope.intersects(shader) {
        found |= Stages::COMPUTE_SHADER;
    }
    if scope.intersects(AccessScope::TRANSFER_READ | AccessScope::TRANSFER_WRITE) {
        found |= Stages::TRANSFER;
    }
    if scope.intersects(AccessScope::HOST_READ | AccessScope::HOST_WRITE) {
        found |= Stages::HOST;
    }
    found
}

fn access(scope: AccessScope) -> Access {
    const PAIRS: [(AccessScope, Access); 10] = [
        (AccessScope::INDIRECT_COMMAND_READ, Access::INDIRECT_COMMAND_READ),
        (
            AccessScope::CONSTANT_READ,
            Access::from_raw(Access::UNIFORM_READ.as_raw() | Access::SHADER_READ.as_raw()),
        ),
        (
            AccessScope::DISPATCH_READ,
            Access::from_raw(Access::UNIFORM_READ.as_raw() | Access::SHADER_READ.as_raw()),
        ),
        (AccessScope::DISPATCH_WRITE, Access::SHADER_WRITE),
        (AccessScope::TRANSFER_READ, Access::TRANSFER_READ),
        (AccessScope::TRANSFER_WRITE, Access::TRANSFER_WRITE),
        (AccessScope::HOST_READ, Access::HOST_READ),
        (AccessScope::HOST_WRITE, Access::HOST_WRITE),
        (AccessScope::MEMORY_READ, Access::MEMORY_READ),
        (AccessScope::MEMORY_WRITE, Access::MEMORY_WRITE),
    ];
    PAIRS
        .iter()
        .filter(|(flag, _)| scope.intersects(*flag))
        .fold(Access::empty(), |found, (_, access)| found | *access)
}

fn writes_of(stages: Stages) -> Access {
    let mut found = Access::MEMORY_WRITE;
    if stages.contains(Stages::COMPUTE_SHADER) {
        found |= Access::SHADER_WRITE;
    }
    if stages.contains(Stages::TRANSFER) {
        found |= Access::TRANSFER_WRITE;
    }
    if stages.contains(Stages::HOST) {
        found |= Access::HOST_WRITE;
    }
    found
}

fn reads_of(stages: Stages) -> Access {
    let mut found = Access::MEMORY_READ;
    if stages.contains(Stages::COMPUTE_SHADER) {
        found |= Access::SHADER_READ | Access::UNIFORM_READ;
    }
    if stages.contains(Stages::TRANSFER) {
        found |= Access::TRANSFER_READ;
    }
    if stages.contains(Stages::DRAW_INDIRECT) {
        found |= Access::INDIRECT_COMMAND_READ;
    }
    if stages.contains(Stages::HOST) {
        found |= Access::HOST_READ;
    }
    found
}

fn all_of(stages: Stages) -> Access {
    writes_of(stages) | reads_of(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_wait_for_dispatches_alone() {
        let scopes = MemoryBarrier {
            source_scope: AccessScope::DISPATCH_WRITE,
            target_scope: AccessScope::DISPATCH_READ,
        };
        let barrier = Barrier::new(ExecutionStage::DISPATCH, ExecutionStage::DISPATCH, [&scopes]);
        assert!(barrier.source_stages == Stages::COMPUTE_SHADER);
        assert!(barrier.target_stages == Stages::COMPUTE_SHADER);
        assert!(barrier.source_access == Access::SHADER_WRITE);
        assert!(barrier.target_access == Access::SHADER_READ | Access::UNIFORM_READ);
    }

    #[test]
    fn the_compilers_barrier_covers_counts_and_transfers() {
        let scopes = MemoryBarrier {
            source_scope: AccessScope::DISPATCH_WRITE | AccessScope::TRANSFER_WRITE,
            target_scope: AccessScope::INDIRECT_COMMAND_READ | AccessScope::DISPATCH_READ,
        };
        let source = ExecutionStage::DISPATCH | ExecutionStage::TRANSFER | ExecutionStage::COMMAND_RETIRE;
        let target = ExecutionStage::COMMAND_ISSUE | ExecutionStage::DISPATCH | ExecutionStage::TRANSFER;
        let barrier = Barrier::new(source, target, [&scopes]);
        assert!(barrier.source_stages == Stages::COMPUTE_SHADER | Stages::TRANSFER);
        assert!(barrier.target_stages.contains(Stages::DRAW_INDIRECT | Stages::COMPUTE_SHADER));
        assert!(barrier.target_access.contains(Access::INDIRECT_COMMAND_READ | Access::SHADER_READ));
        assert!(!barrier.target_access.contains(Access::TRANSFER_READ));
    }

    #[test]
    fn commands_that_are_not_issued_do_not_access_memory() {
        use ExecutionStage as Stage;
        let works = Stages::COMPUTE_SHADER | Stages::TRANSFER | Stages::DRAW_INDIRECT;
        let reads = Access::SHADER_READ | Access::TRANSFER_READ | Access::INDIRECT_COMMAND_READ;
        for target in [Stage::COMMAND_ISSUE, Stage::COMMAND_ISSUE | Stage::HOST] {
            let barrier = Barrier::new(Stage::COMMAND_RETIRE, target, []);
            assert!(barrier.source_stages.contains(works) && barrier.target_stages.contains(works));
            assert!(barrier.target_access.contains(reads));
        }
        let counts = Barrier::new(Stage::TRANSFER, Stage::COMMAND_PROCESS, []);
        assert!(counts.target_stages == Stages::DRAW_INDIRECT);
    }

    #[test]
    fn without_scopes_what_the_stages_do_is_visible() {
        let barrier = Barrier::new(ExecutionStage::TRANSFER, ExecutionStage::DISPATCH, []);
        assert!(barrier.source_access.contains(Access::TRANSFER_WRITE));
        assert!(barrier.target_access.contains(Access::SHADER_READ | Access::SHADER_WRITE));
        let all = Barrier::new(ExecutionStage::empty(), ExecutionStage::empty(), []);
        assert!(all.source_stages.contains(Stages::COMPUTE_SHADER | Stages::TRANSFER));
    }
}

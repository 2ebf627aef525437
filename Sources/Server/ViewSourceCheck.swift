internal import ClusterService
internal import ScriptProcesses
internal import ViewService
internal import Wire

/// Implements the cluster service's port `ScriptCheck` by the script processes.
struct ViewSourceCheck: ScriptCheck {
    let opening: IndexOpening

    func flaw(in source: String, of kind: ScriptKind, forBucket uuid: String) async -> ScriptFlaw? {
        // Without processes the check would only wait.
        guard opening.programs.obstacle == nil, let scripts = opening.open()?.scripts
        else { return nil }
        let use: ScriptUse = kind == .map ? .map : .reduce
        let flaw = await scripts.flaw(in: source, use, forBucket: uuid)
        return flaw.map { ScriptFlaw(line: Int($0.line), message: $0.text) }
    }
}

internal import ClusterService
internal import Seams
internal import ViewService
internal import Wire

/// Implements the cluster service's port `ScriptCheck` by the script processes.
struct ViewSourceCheck: ScriptCheck {
    private let opening: IndexOpening
    private let children: any ChildProcesses

    init(_ opening: IndexOpening, _ children: any ChildProcesses) {
        self.opening = opening
        self.children = children
    }

    func flaw(in source: String, of kind: ScriptKind) async -> ScriptFlaw? {
        // Without the program the check would only wait.
        guard children.obstacle(to: ScriptPool.programName) == nil,
            let scripts = opening.open()?.scripts
        else { return nil }
        let flaw = await scripts.flaw(in: source, kind == .map ? .map : .reduce)
        return flaw.map { ScriptFlaw(line: Int($0.line), message: $0.text) }
    }
}

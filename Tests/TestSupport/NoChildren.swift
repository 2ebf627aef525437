internal import Bytes
package import Seams

/// Children of an environment that has none: every start fails.
package struct NoChildren: ChildProcesses {
    package init() {}

    package func obstacle(to name: String, mustFilter: Bool) -> ChildError? {
        ChildError(
            code: .missing,
            description: "cannot start \(name): this environment has no child processes"
        )
    }

    package func start(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler
    ) -> any ChildProcess {
        if let error = obstacle(to: program.name, mustFilter: false) {
            lane.post { handler.ended(.notStarted(error)) }
        }
        return AbsentChild()
    }

    private final class AbsentChild: ChildProcess {
        var residentBytes: UInt64? { nil }

        func send(_ bytes: ByteView) -> ChildSendOutcome { .closed }

        func kill() {}
    }
}

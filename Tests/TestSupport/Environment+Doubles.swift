package import Seams

extension Environment {
    /// An environment of doubles, and of what a test provides.
    package static func doubles(
        time: any TimeSource,
        entropy: any Entropy = SeededEntropy(),
        network: any Network = NoNetwork(),
        disk: any Disk = FileDisk(),
        lanes: any LaneFactory,
        trace: any Trace = RecordingTrace()
    ) -> Environment {
        Environment(
            time: time,
            entropy: entropy,
            network: network,
            disk: disk,
            lanes: lanes,
            trace: trace,
            children: NoChildren()
        )
    }

    /// This environment with other interfaces; nil keeps its own.
    package func with(
        time: (any TimeSource)? = nil,
        lanes: (any LaneFactory)? = nil,
        children: (any ChildProcesses)? = nil
    ) -> Environment {
        var environment = Environment(
            time: time ?? self.time,
            entropy: entropy,
            network: network,
            disk: disk,
            lanes: lanes ?? self.lanes,
            trace: trace,
            children: children ?? self.children
        )
        environment.security = security
        environment.descriptors = descriptors
        environment.returnFreeMemory = returnFreeMemory
        return environment
    }
}

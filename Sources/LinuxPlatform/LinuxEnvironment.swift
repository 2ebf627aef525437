internal import CLinux
internal import Glibc
package import Seams

/// The Linux implementations of the seams: `main` makes them first and stops them last.
///
///     let world = LinuxEnvironment.make(reactors: nil, logLevel: .info)
///     let signals = SignalWatch { signal in ... begin to shut down ... }
///     let listener = try world.environment.network.listen(on: address) { port in ... }
///     ...
///     listener.close()
///     world.stop()
///
/// The component that made a lane stops it; `stop` ends the reactors.
package struct LinuxEnvironment: Sendable {
    package let environment: Environment
    private let network: ReactorNetwork
    private let stopChildren: @Sendable () -> Void

    /// Makes the environment with a log on standard error.
    ///
    /// - Parameters:
    ///   - reactors: The number of threads that serve connections; nil for one for each processor
    ///     that this process may use.
    ///   - logLevel: Events below this are not logged.
    ///   - logFormat: The form of the log's lines.
    ///   - limits: The bounds of reactors and connections.
    ///   - logBytesMax: The bound of a log file; nil for none.
    ///   - security: Secures connections between nodes, if the process has some.
    /// - Returns: The environment, with its reactors running.
    package static func make(
        reactors: Int? = nil,
        logLevel: Severity = .info,
        logFormat: LogFormat = .text,
        limits: ReactorLimits = ReactorLimits(),
        logBytesMax: Int? = nil,
        security: any TransportSecurity = AbsentSecurity()
    ) -> LinuxEnvironment {
        let rotation = logBytesMax.flatMap { LogRotation(bytesMax: $0) }
        let trace = LogTrace(threshold: logLevel, format: logFormat, rotation: rotation)
        return make(reactors: reactors, trace: trace, limits: limits, security: security)
    }

    /// Makes the environment with another trace, and with a spawner that starts the children if there is one.
    package static func make(
        reactors: Int?,
        trace: any Trace,
        limits: ReactorLimits = ReactorLimits(),
        security: any TransportSecurity = AbsentSecurity(),
        spawner: Spawner? = nil
    ) -> LinuxEnvironment {
        // Writing to a closed pipe or socket then fails with EPIPE instead of ending the process.
        signal(SIGPIPE, SIG_IGN)
        raiseFileLimit(trace)
        let descriptors = makeDescriptors(trace)
        var limits = limits
        limits.descriptors = descriptors
        let count = max(1, reactors ?? Int(divan_processors()))
        let network = ReactorNetwork(reactors: count, limits: limits, trace: trace)
        let (children, stopChildren) = makeChildren(spawner, trace)
        var environment = Environment(
            time: LinuxClock(),
            entropy: LinuxEntropy(),
            network: network,
            disk: LinuxDisk(),
            lanes: LinuxLanes(reactorCount: count, trace: trace),
            trace: trace,
            children: children
        )
        environment.security = security
        environment.descriptors = descriptors
        environment.returnFreeMemory = { divan_return_free_memory() }
        return LinuxEnvironment(
            environment: environment,
            network: network,
            stopChildren: stopChildren
        )
    }

    private static func makeChildren(
        _ spawner: Spawner?,
        _ trace: any Trace
    ) -> (any ChildProcesses, @Sendable () -> Void) {
        guard let spawner else {
            let children = LinuxChildren(trace: trace)
            return (children, { children.stop() })
        }
        let children = SpawnerChildren(spawner, trace: trace)
        return (children, { children.stop() })
    }

    /// Kills all children, closes all connections and ends the reactors; returns when their threads
    /// have ended.
    package func stop() {
        stopChildren()
        network.stop()
    }

    /// Raises the soft limit of open files to the hard limit, since the default of 1024 is too low.
    private static func raiseFileLimit(_ trace: any Trace) {
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(kind, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        if setrlimit(kind, &limit) != 0 {
            let reason = SystemError.text(errno)
            trace.warning("environment", "the limit of open files cannot be raised: \(reason)")
        }
    }

    /// The descriptors that this process may have open, and a count of those that are.
    private static func makeDescriptors(_ trace: any Trace) -> Descriptors {
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        // A process without a limit has at most as many as the kernel's numbers allow.
        let isKnown = getrlimit(kind, &limit) == 0
        let most = isKnown ? Int(clamping: min(limit.rlim_cur, rlim_t(Int32.max))) : 1_024
        if most < DescriptorPlan.limitMin {
            trace.warning(
                "environment",
                "this process may open \(most) files, and a node with some buckets and views needs "
                    + "\(DescriptorPlan.limitMin): raise the limit (ulimit -n, or LimitNOFILE= of the "
                    + "service)"
            )
        }
        return Descriptors(
            limit: most,
            now: { LinuxClock.waitingNanoseconds() },
            count: { Int(divan_open_descriptors(Int32(clamping: most))) }
        )
    }
}

/// The kernel's random numbers.
package struct LinuxEntropy: Entropy {
    package init() {}

    package func next() -> UInt64 {
        var value: UInt64 = 0
        while true {
            let count = divan_random(&value, MemoryLayout<UInt64>.size)
            if count == MemoryLayout<UInt64>.size { return value }
            precondition(count >= 0 || errno == EINTR, "the kernel returned no random bytes")
        }
    }
}

internal import CLinux
internal import Glibc
package import Seams

/// The real world: what `main` makes first and stops last.
///
///     let world = LinuxEnvironment.make(reactors: nil, logLevel: .info)
///     let signals = SignalWatch { signal in ... begin to shut down ... }
///     let listener = try world.environment.network.listen(on: address) { port in ... }
///     ...
///     listener.close()
///     world.stop()
///
/// Whoever made a lane stops it; `stop` ends the reactors.
package struct LinuxEnvironment: Sendable {
    package let environment: Environment
    private let network: ReactorNetwork

    /// Makes the world.
    ///
    /// - Parameters:
    ///   - reactors: How many threads serve connections; nil for one for each processor that this
    ///     process may use.
    ///   - logLevel: Events below this are not logged.
    ///   - limits: The bounds of reactors and connections.
    /// - Returns: The world, with its reactors running.
    package static func make(
        reactors: Int? = nil,
        logLevel: Severity = .info,
        limits: ReactorLimits = ReactorLimits()
    ) -> LinuxEnvironment {
        make(reactors: reactors, trace: LogTrace(threshold: logLevel), limits: limits)
    }

    /// Makes the world with another place to tell events.
    package static func make(
        reactors: Int?,
        trace: any Trace,
        limits: ReactorLimits = ReactorLimits()
    ) -> LinuxEnvironment {
        // A peer that hangs up while we write to a pipe or socket is an error code, not a death.
        signal(SIGPIPE, SIG_IGN)
        allowManyFiles(trace)
        let count = max(1, reactors ?? Int(divan_processors()))
        let network = ReactorNetwork(reactors: count, limits: limits, trace: trace)
        let environment = Environment(
            time: LinuxClock(),
            entropy: LinuxEntropy(),
            network: network,
            disk: LinuxDisk(),
            lanes: LinuxLanes(reactorCount: count),
            trace: trace
        )
        return LinuxEnvironment(environment: environment, network: network)
    }

    /// Closes all connections and ends the reactors; returns when they are gone.
    package func stop() { network.stop() }

    /// Raises the soft limit of open files to the hard one: a default of 1024 is soon used up.
    private static func allowManyFiles(_ trace: any Trace) {
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(kind, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        if setrlimit(kind, &limit) != 0 {
            let reason = SystemError.text(errno)
            trace.warning("environment", "the limit of open files stays as it is: \(reason)")
        }
    }
}

internal import Bytes
internal import HummingbirdCore
internal import NIOCore
internal import Seams

/// Decides for one port whether it accepts: up to a number of connections, and while `Descriptors` has room.
///
/// The framework asks again when one of the port's connections is closed. Descriptors become free elsewhere
/// as well, so the gate asks again after a pause.
final class AcceptGate: Sendable {
    /// The framework's view of the gate; it is used on the event loop of the port only.
    struct Delegate: AvailableConnectionsDelegate {
        let gate: AcceptGate
        private var count = 0

        init(_ gate: AcceptGate) { self.gate = gate }

        mutating func connectionOpened() {
            count += 1
            gate.descriptors.opened(gate.use)
        }

        mutating func connectionClosed() {
            count -= 1
            gate.descriptors.closed(gate.use)
        }

        func isAcceptingNewConnections() -> Bool {
            guard count < AcceptGate.connectionsMax else { return false }
            if gate.descriptors.admits(gate.use) { return true }
            gate.wait()
            return false
        }
    }

    private struct State {
        var channel: (any Channel)?
        var isWaiting = false
    }

    /// The most open connections; further clients wait until one of these is closed.
    private static let connectionsMax = 8_192
    private static let pause = TimeAmount.milliseconds(10)

    private let descriptors: Descriptors
    private let use: DescriptorPlan.Use
    private let warn: @Sendable (String) -> Void
    private let state = Guarded(State())

    /// - Parameters:
    ///   - descriptors: Those of the process.
    ///   - use: What the port's connections are for.
    ///   - warn: Logs why clients wait.
    init(
        _ descriptors: Descriptors,
        for use: DescriptorPlan.Use,
        warn: @escaping @Sendable (String) -> Void
    ) {
        self.descriptors = descriptors
        self.use = use
        self.warn = warn
    }

    /// The port listens on this channel.
    func begin(on channel: any Channel) {
        state.withLock { $0.channel = channel }
        // The framework may have asked before.
        channel.read()
    }

    /// The port is closed.
    func end() { state.withLock { $0.channel = nil } }

    private func wait() {
        if let warning = descriptors.warning(of: use) { warn(warning) }
        let waiting: (any Channel)? = state.withLock { state in
            guard let channel = state.channel, !state.isWaiting else { return nil }
            state.isWaiting = true
            return channel
        }
        guard let waiting else { return }
        waiting.eventLoop.scheduleTask(in: Self.pause) { [self] in
            let channel = state.withLock { state in
                state.isWaiting = false
                return state.channel
            }
            channel?.read()
        }
    }
}

internal import Bytes
internal import ClusterService
internal import Foundation
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import Seams
internal import ServiceLifecycle

/// One port that serves HTTP: claims the port, bounds its connections, and stops it.
///
/// The node's ports differ in their routes (`Router`) and in `Settings`; everything about
/// connections is the same.
final class HTTPListener: Sendable {
    /// The address and the properties of one port.
    struct Settings: Sendable {
        /// The address to listen on, in digits or as a name.
        let host: String
        /// The port; 0 claims any free one.
        var port: UInt16
        /// The port's name in errors, for example "admin port".
        var name: String
        /// The option of `divan-server` that sets the port; nil if there is none.
        var option: String?
        /// The purpose of the port's connections.
        var use = DescriptorPlan.Use.clients
        var channel = PortChannel.Settings()
        /// The port with the same routes over TLS; nil for none.
        var secured: SecuredPort?
    }

    /// The port that was claimed; differs from the requested one if that was 0.
    let port: UInt16
    private let group: ServiceGroup
    private let task: Task<Void, Never>

    /// How long pending requests may take after `stop` begins.
    ///
    /// The sum of this and `cancellationPeriod` bounds how long an operator waits for `stop`.
    private static let gracePeriod = Duration.milliseconds(1_000)
    /// How long `stop` waits for the pending requests after it has cancelled them.
    private static let cancellationPeriod = Duration.milliseconds(300)

    /// The field `Server` of every response.
    static let serverName = "Couchbase Server"

    private init(port: UInt16, group: ServiceGroup, task: Task<Void, Never>) {
        self.port = port
        self.group = group
        self.task = task
    }

    /// Claims the port and begins to serve.
    ///
    /// - Throws: `HTTPListenerError` if the port cannot be claimed.
    /// - Returns: The listener, once it listens.
    static func start(
        _ router: Router,
        _ settings: Settings,
        logger: Logger
    ) async throws(HTTPListenerError) -> HTTPListener {
        let (outcome, begin) = AsyncStream<Result<UInt16, HTTPListenerError>>.makeStream()
        let prompt = settings.channel.answersPromptly ? PromptResponder.Port(router: router) : nil
        let gate = AcceptGate(router.resources.service.cluster.descriptors, for: settings.use) {
            logger.warning("\($0)")
        }
        let responder = PortResponder(router: router)
        let refusals = Guarded(RefusalLog())
        let builder = HTTPServerBuilder { respond in
            let channel = HTTP1Channel(responder: respond, configuration: channelConfiguration)
            return PortChannel(
                channel: channel,
                settings: settings.channel,
                service: router.service,
                prompt: prompt,
                refused: { reason in
                    let line = refusals.withLock {
                        $0.line(
                            "closed a connection of the \(settings.name): \(reason)",
                            at: router.service.cluster.monotonicNanoseconds
                        )
                    }
                    if let line { logger.warning("\(line)") }
                }
            )
        }
        // Not the framework's `Application`: it makes a date each second by a task that sleeps, and with it
        // libdispatch's threads, which end the process when no descriptor is free.
        let server: any Service
        do {
            server = try builder.buildServer(
                configuration: ServerConfiguration(
                    address: .hostname(settings.host, port: Int(settings.port)),
                    availableConnectionsDelegate: AcceptGate.Delegate(gate)
                ),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
                responder: { try await responder.answer($0, $1, on: $2) },
                onServerRunning: { channel in
                    gate.begin(on: channel)
                    let port = channel.localAddress?.port ?? Int(settings.port)
                    begin.yield(.success(UInt16(port)))
                }
            )
        } catch {
            throw HTTPListenerError(error, settings)
        }
        let group = ServiceGroup(configuration: .init(services: [server], logger: logger))
        let task = Task {
            do {
                try await group.run()
            } catch {
                let failure = HTTPListenerError(error, settings)
                // Before the port is claimed, `start` throws the error; later it is only logged.
                if case .terminated = begin.yield(.failure(failure)), !Task.isCancelled {
                    logger.error("\(failure)")
                }
            }
            gate.end()
            begin.finish()
        }
        for await result in outcome {
            return HTTPListener(port: try result.get(), group: group, task: task)
        }
        throw HTTPListenerError(CancellationError(), settings)
    }

    /// Stops listening and waits for pending requests, and cancels them after the grace period.
    func stop() async {
        await group.triggerGracefulShutdown()
        let (ends, end) = AsyncStream<Never>.makeStream()
        let waiting = Task { [task] in
            await task.value
            end.finish()
        }
        let timeout = Task { [task] in
            try await Task.sleep(for: Self.gracePeriod)
            task.cancel()
            try await Task.sleep(for: Self.cancellationPeriod)
            // A request may ignore cancellation, for example while it waits for a full disk.
            end.finish()
        }
        for await _ in ends {}
        waiting.cancel()
        timeout.cancel()
    }

    private static var channelConfiguration: HTTP1Channel.Configuration {
        HTTP1Channel.Configuration(
            idleTimeout: nil,
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: HeadLimit.bytesMax,
                maxHeaderListSize: HeadLimit.bytesMax,
                maxHeaderFieldCount: HeadLimit.fieldsMax
            )
        )
    }
}

/// A port could not be claimed.
package struct HTTPListenerError: Error, Sendable, CustomStringConvertible {
    /// A sentence for an operator: the cause and the remedy.
    package let description: String

    init(_ error: any Error, _ settings: HTTPListener.Settings) {
        let host = settings.host
        let address = host.contains(":") ? "[\(host)]:\(settings.port)" : "\(host):\(settings.port)"
        let place = "\(settings.name) \(address)"
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE:
            let remedy = settings.option.map { "; \($0) sets another" } ?? ""
            description = "The \(place) is in use by another process\(remedy)"
        case EADDRNOTAVAIL:
            description = "This machine does not have the address \(host); --bind sets another"
        case EACCES:
            description = "This user may not use the \(place); choose one above 1023"
        default:
            description = "The \(place) could not be opened: \(error)"
        }
    }
}

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

internal import ClusterService
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOSecurity
internal import Seams

/// The framework's connection, with `ConnectionLifetime` where a request's version is still known.
///
/// The framework's own hook adds handlers only after its conversion to types without a version. It does not
/// notice a client that disconnects while its request is handled: `ConnectionWatch` does.
struct PortChannel: ServerChildChannel {
    struct Settings: Sendable {
        /// Reason phrases by status code, where clients expect other ones than the standard's.
        var reasonPhrases: [UInt: String] = [:]
        /// The refusal of a request whose head is refused, for a reason (`HeadLimit`).
        var headRefusal: @Sendable (String) -> Reply = { .text($0 + "\r\n", status: 400) }
        /// How long a client may leave a response unread before its connection is closed; nil for
        /// any time.
        var stallTimeout: Duration?
        /// Whether requests are handled on the threads of their connections' event loops.
        ///
        /// This saves two changes of the thread for each request, which cost more than a short query.
        /// It is for ports whose routes do not wait for a disk.
        var usesEventLoops = false
        /// Secures the connections; nil for plain ones.
        var security: (any ClientSecurity)?
        /// Whether routes with a prompt handler answer on the event loop, before the framework
        /// (`PromptResponder`).
        var answersPromptly = false
    }

    /// A connection: the framework's, and whether it is closed.
    struct Connection: ServerChildChannelValue {
        let http: HTTP1Channel.Value
        let watch: ConnectionWatch

        var channel: any Channel { http.channel }
    }

    let channel: HTTP1Channel
    let settings: Settings
    let service: AdministrationService
    /// Nil if the framework gets all requests.
    let prompt: PromptResponder.Port?
    /// Gets why a client's TLS was refused.
    let refused: @Sendable (String) -> Void

    /// Sets up the framework's pipeline and adds the node's handlers behind the request decoder.
    ///
    /// Requests pass `HeadLimit`, `ConnectionLifetime`, `ReasonPhrases` and `PromptResponder`, then the
    /// framework; responses the same in reverse.
    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Connection> {
        let secured = settings.security.map { _ in SecuredConnection() }
        if let secured, let security = settings.security {
            var observer = TLSHandler.Observer()
            observer.authenticated = { secured.authenticate(by: $0) }
            observer.refused = refused
            do {
                let handler = TLSHandler(security.makeChannel(), observer)
                try channel.pipeline.syncOperations.addHandler(handler)
            } catch {
                return channel.eventLoop.makeFailedFuture(error)
            }
        }
        return self.channel.setup(channel: channel, logger: logger).flatMapThrowing { http in
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            let login = ConnectionLogin(
                service,
                host: PortResponder.address(channel.remoteAddress)
            ) { channel.close(promise: nil) }
            let watch = ConnectionWatch(login: login, secured: secured)
            channel.closeFuture.whenComplete { _ in login.close() }
            if let prompt {
                let responder = PromptResponder(prompt, watch)
                try pipeline.addHandler(responder, position: .after(decoder))
            }
            if !settings.reasonPhrases.isEmpty {
                let phrases = ReasonPhrases(settings.reasonPhrases)
                try pipeline.addHandler(phrases, position: .after(decoder))
            }
            let lifetime = ConnectionLifetime(settings, watch)
            try pipeline.addHandler(lifetime, position: .after(decoder))
            try pipeline.addHandler(HeadLimit(settings.headRefusal), position: .after(decoder))
            return Connection(http: http, watch: watch)
        }
    }

    func handle(value: Connection, logger: Logger) async {
        guard settings.usesEventLoops else { return await serve(value, logger) }
        await withTaskExecutorPreference(LoopExecutor(value.channel.eventLoop)) {
            await serve(value, logger)
        }
    }

    /// Handles a connection's requests until it is closed; then cancels a request that ends with it.
    private func serve(_ connection: Connection, _ logger: Logger) async {
        await ConnectionWatch.$current.withValue(connection.watch) {
            await withDiscardingTaskGroup { group in
                group.addTask { await channel.handle(value: connection.http, logger: logger) }
                // The framework closes the channel in any case.
                try? await connection.channel.closeFuture.get()
                if connection.watch.close() { group.cancelAll() }
            }
        }
    }
}

/// Runs the tasks of a connection on the connection's event loop.
///
/// A task that runs there sends and receives without another thread. While it runs, the loop's other
/// connections wait, so its steps must be short and few: the loop runs all tasks that are ready before it
/// looks for input again. Long responses therefore run on Swift's own threads, and large bodies are parsed on
/// those of `WorkExecutor` (`ViewQueryRoutes`).
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) {
        self.loop = loop
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// Replaces reason phrases of responses.
///
/// Old clients compare the whole status line. The framework's statuses have no phrase: it sends the
/// standard's for every code it knows.
final class ReasonPhrases: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let phrases: [UInt: String]

    /// - Parameter phrases: The phrases by status code; other codes keep the standard's.
    init(_ phrases: [UInt: String]) {
        self.phrases = phrases
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .head(var head) = unwrapOutboundIn(data),
            let phrase = phrases[head.status.code]
        else { return context.write(data, promise: promise) }
        head.status = .custom(code: head.status.code, reasonPhrase: phrase)
        context.write(wrapOutboundOut(.head(head)), promise: promise)
    }
}

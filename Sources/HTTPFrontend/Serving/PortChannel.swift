internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1

/// The framework's connection, with `ConnectionLifetime` where a request's version is still known.
///
/// The framework's own hook adds handlers only after its conversion to types without a version.
struct PortChannel: ServerChildChannel {
    struct Settings: Sendable {
        /// Reason phrases by status code, where clients expect other ones than the standard's.
        var reasonPhrases: [UInt: String] = [:]
        /// How long a client may leave a response unread before its connection is closed; nil for
        /// any time.
        var stallTimeout: Duration?
        /// Whether requests are handled on the threads of their connections' event loops.
        ///
        /// This saves two changes of the thread for each request, which cost more than a short query.
        /// It is for ports whose routes do not wait for a disk.
        var usesEventLoops = false
    }

    let channel: HTTP1Channel
    let settings: Settings

    /// Sets up the framework's pipeline and adds `ConnectionLifetime` behind the request decoder.
    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        self.channel.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            if !settings.reasonPhrases.isEmpty {
                let phrases = ReasonPhrases(settings.reasonPhrases)
                try pipeline.addHandler(phrases, position: .after(decoder))
            }
            let lifetime = ConnectionLifetime(
                stallTimeout: settings.stallTimeout.map { TimeAmount($0) }
            )
            try pipeline.addHandler(lifetime, position: .after(decoder))
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        guard settings.usesEventLoops else {
            return await channel.handle(value: value, logger: logger)
        }
        await withTaskExecutorPreference(LoopExecutor(value.channel.eventLoop)) {
            await channel.handle(value: value, logger: logger)
        }
    }
}

internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1

/// The framework's connection, with `ConnectionLifetime` where a request's version is still known.
///
/// The framework's own hook adds handlers only after its conversion to types without a version.
struct PortChannel: ServerChildChannel {
    let channel: HTTP1Channel

    /// Sets up the framework's pipeline and adds `ConnectionLifetime` behind the request decoder.
    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        self.channel.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(ConnectionLifetime(), position: .after(decoder))
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        await channel.handle(value: value, logger: logger)
    }
}

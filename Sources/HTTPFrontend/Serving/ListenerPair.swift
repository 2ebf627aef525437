internal import Logging
package import Seams

/// A port with TLS.
package struct SecuredPort: Sendable {
    /// The port; 0 claims any free one.
    package let port: UInt16
    package let security: any ClientSecurity

    package init(port: UInt16, security: any ClientSecurity) {
        self.port = port
        self.security = security
    }
}

/// The plain port and the port with TLS of the same routes.
struct ListenerPair: Sendable {
    let plain: HTTPListener
    /// Nil if the node serves no TLS.
    let secured: HTTPListener?

    /// Claims both ports and begins to serve.
    ///
    /// - Throws: `HTTPListenerError` if a port cannot be claimed; then none is served.
    /// - Returns: The listeners, once they listen.
    static func start(
        _ router: Router,
        _ settings: HTTPListener.Settings,
        logger: Logger
    ) async throws(HTTPListenerError) -> ListenerPair {
        let plain = try await HTTPListener.start(router, settings, logger: logger)
        guard let port = settings.secured else { return ListenerPair(plain: plain, secured: nil) }
        var secured = settings
        secured.port = port.port
        secured.name += " with TLS"
        secured.option = settings.option.map { $0.dropLast("port".count) + "tls-port" }
        secured.channel.security = port.security
        do throws(HTTPListenerError) {
            let listener = try await HTTPListener.start(router, secured, logger: logger)
            return ListenerPair(plain: plain, secured: listener)
        } catch {
            await plain.stop()
            throw error
        }
    }

    /// Stops both, at the same time.
    func stop() async {
        async let securedEnd: Void? = secured?.stop()
        await plain.stop()
        _ = await securedEnd
    }
}

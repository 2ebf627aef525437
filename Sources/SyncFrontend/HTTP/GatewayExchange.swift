package import Bytes
package import SyncWire

/// skeleton
package final class GatewayExchange: @unchecked Sendable {  // tidy:allow belongs to its event loop
    package let request: GatewayRequest
    package let number: UInt64
    package let parameters = RouteParameters()
    package var headers = AnswerHeaders()
    package private(set) var status = 0
    package var isClosed: Bool { false }

    init(_ request: GatewayRequest) {
        self.request = request
        number = 0
    }

    package func readBody(
        atMost bytesMax: Int,
        _ done: @escaping (Result<ByteWriter, Refusal>) -> Void
    ) {}
    package func streamBody(
        _ consume: @escaping (ByteView) throws(Refusal) -> Void,
        _ done: @escaping (Refusal?) -> Void
    ) {}
    package func pauseBody() {}
    package func resumeBody() {}

    package func answer(
        _ status: Int,
        _ headers: AnswerHeaders = [:],
        body: ByteView = .empty,
        mayCompress: Bool = true
    ) {}
    package func answer(json body: ByteView, status: Int = 200, _ headers: AnswerHeaders = [:]) {}
    package func refuse(_ refusal: Refusal) {}
    package func begin(_ status: Int, _ headers: AnswerHeaders, mayCompress: Bool = true) {}
    package func write(_ bytes: ByteView) {}
    package func flush() {}
    package func end() {}
    package var isWritable: Bool { true }
    package func whenWritable(_ resume: @escaping () -> Void) {}
    package func whenClosed(_ react: @escaping () -> Void) {}
    package func upgradeToWebSocket(
        subprotocol: String? = nil,
        _ handler: @escaping (WebSocketConnection, WebSocketEvent) -> Void
    ) {}
}

internal import Bytes
internal import NIOHTTP1
package import SyncWire

/// The purpose of a port of the gateway.
package enum PortKind: Hashable, Sendable, CaseIterable {
    case publicPort
    case administration
    case metrics
}

/// The head of a request.
package struct GatewayRequest {
    /// As sent: `GET`.
    package let method: String
    /// As sent: path and query.
    package let target: String
    /// The path, divided at `/` before it is decoded, so that `%2F` stays within an id; `/db/` has `db` and an
    /// empty segment, and `/` has none.
    package let segments: [String]
    package let query: URLParameters
    package let port: PortKind
    /// The client's address without its port; empty if it is unknown.
    package let remoteAddress: String
    /// Why no route may serve the request; nil if one may.
    let flaw: Refusal?
    let head: HTTPRequestHead

    init(_ head: HTTPRequestHead, _ port: PortKind, from remoteAddress: String) {
        method = head.method.rawValue
        target = head.uri
        self.head = head
        self.port = port
        self.remoteAddress = remoteAddress
        do throws(Refusal) {
            (segments, query) = try Target.parse(head.uri)
            flaw = Self.flaw(of: head)
        } catch {
            (segments, query) = ([], .none)
            flaw = error
        }
    }

    /// A request that names several hosts may have passed a proxy that checked another one (RFC 9112, section 3.2).
    private static func flaw(of head: HTTPRequestHead) -> Refusal? {
        let hostCount = head.headers["Host"].count
        if hostCount == 1 || hostCount == 0 && head.version.minor == 0 { return nil }
        return Refusal(400, "The request needs one header Host")
    }

    /// `HTTP/1.0` is false; 1.1 and later minor versions are true.
    package var isVersion11: Bool { head.version.minor >= 1 }

    package var isHead: Bool { head.method == .HEAD }

    /// The first value of a header field, its name compared without case; nil if there is none.
    package func header(_ name: String) -> String? { head.headers.first(name: name) }

    /// All values of a header field.
    package func headers(_ name: String) -> [String] { head.headers[name] }

    /// Whether a list of a header field has an element, compared without case: `Connection: keep-alive, Upgrade`.
    func lists(_ element: String, in name: String) -> Bool {
        head.headers[canonicalForm: name].contains { FieldName.equal(String($0), element) }
    }

    /// Whether the client asks to speak WebSocket (RFC 6455, section 4.2.1).
    package var isWebSocketUpgrade: Bool {
        head.method == .GET && lists("websocket", in: "Upgrade")
            && lists("upgrade", in: "Connection")
    }

    /// The WebSocket subprotocols that the client offers, in its order.
    package var webSocketProtocols: [String] {
        head.headers[canonicalForm: "Sec-WebSocket-Protocol"].map(String.init)
    }
}

/// The target of a request.
enum Target {
    /// The decoded segments of the path, and the query.
    ///
    /// - Throws: `Refusal` with 400, 413 or 414.
    static func parse(_ target: String) throws(Refusal) -> ([String], URLParameters) {
        var target = target
        let parsed: Result<([String], URLParameters), Refusal> = target.withUTF8 { utf8 in
            let text = ByteView(UnsafeRawBufferPointer(utf8))
            let mark = utf8.firstIndex(of: UInt8(ascii: "?"))
            guard
                let segments = PercentCoding.segments(ofPath: text.slice(0, mark ?? text.count))
            else { return .failure(Refusal(400, "Invalid URL")) }
            guard let mark else { return .success((segments, .none)) }
            do throws(RequestRefusal) {
                return .success((segments, try URLParameters(text.dropFirst(mark + 1))))
            } catch {
                return .failure(Refusal(error.status, error.reason))
            }
        }
        return try parsed.get()
    }
}

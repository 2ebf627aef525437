import Bytes
import SyncFrontend

/// What handlers of a test note on the loop, in order, and exchanges that the test answers itself.
final class Held: Sendable {
    private let exchanges = Guarded<[GatewayExchange]>([])
    private let notes = Guarded<[String]>([])

    func keep(_ exchange: GatewayExchange) { exchanges.withLock { $0.append(exchange) } }

    func note(_ text: String) { notes.withLock { $0.append(text) } }

    var count: Int { exchanges.withLock { $0.count } }

    var texts: [String] { notes.withLock { $0 } }

    subscript(index: Int) -> GatewayExchange { exchanges.withLock { $0[index] } }
}

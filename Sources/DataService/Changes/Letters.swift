internal import Bytes
internal import Seams

/// A queue of events from other lanes to a connection's handler.
///
/// The first event of a batch wakes the handler.
final class Letters<Letter: Sendable>: Sendable {
    private let letters = Guarded<[Letter]>([])
    private let port: any ConnectionPort

    init(port: any ConnectionPort) { self.port = port }

    func put(_ letter: Letter) {
        let isFirst = letters.withLock { letters in
            letters.append(letter)
            return letters.count == 1
        }
        if isFirst { port.wake() }
    }

    func drain() -> [Letter] {
        letters.withLock { letters in
            defer { letters = [] }
            return letters
        }
    }
}

internal import Bytes
internal import Seams

/// Where other lanes leave word for a connection's handler, which is woken for it once.
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

    func takeAll() -> [Letter] {
        letters.withLock { letters in
            defer { letters = [] }
            return letters
        }
    }
}

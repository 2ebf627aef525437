internal import Bytes
internal import DataService
internal import Seams

/// One connection without a socket: hands bytes to its handler as a reactor would, and holds it to
/// what a handler has to keep.
///
/// - Input is handed over in a block of its exact size, so that a look beyond it is caught.
/// - A connection that paused is not called before it woke itself.
package final class Client {
    /// Of one call into the handler.
    package private(set) var largestOutput = 0
    package private(set) var isClosed = false
    package private(set) var isPaused = false
    /// Bytes that the handler has not consumed.
    package private(set) var waiting: [UInt8] = []
    /// Received bytes that no test has read yet.
    package private(set) var received: [UInt8] = []

    private let world: TestWorld
    private let port: MemoryPort
    private let connection: Connection
    private let output = ByteWriter()
    private var isDraining = false
    private var hasNews = false
    private var needed = 0

    /// - Parameters:
    ///   - world: Where it connects.
    ///   - isMemcachedListener: To the plain memcached listener.
    ///   - reactor: Who serves it: the thread that calls here, if there are threads.
    ///   - host: Its address.
    package init(
        _ world: TestWorld,
        isMemcachedListener: Bool = false,
        reactor: Int = 0,
        host: String = "127.0.0.1"
    ) {
        self.world = world
        port = MemoryPort(reactor: reactor, host: host)
        connection = Connection(
            port: port,
            service: world.service,
            isMemcachedListener: isMemcachedListener
        )
    }

    /// Bytes come in; whatever can be done is done.
    package func send(_ bytes: [UInt8]) {
        guard !isClosed else { return }
        waiting += bytes
        hasNews = true
        pump()
    }

    /// Serves the connection until it has nothing to do.
    package func pump() {
        while !isClosed {
            if isDraining {
                isDraining = false
                call(isWake: false)
            } else if port.removeWake() {
                isPaused = false
                call(isWake: true)
            } else if hasNews, !isPaused {
                hasNews = false
                if waiting.count < needed { continue }
                call(isWake: false)
            } else {
                return
            }
        }
    }

    /// The lanes' work and the connection's in turns, until both rest.
    package func settle() {
        repeat {
            world.settle()
            pump()
        } while world.lanes.runOne() || port.isWoken && !isClosed
    }

    package func hangUp() {
        guard !isClosed else { return }
        isClosed = true
        connection.closed()
    }

    private func call(isWake: Bool) {
        world.quiescence.begin(port.reactor)
        let block = UnsafeMutableRawPointer.allocate(byteCount: waiting.count, alignment: 1)
        block.copyMemory(from: waiting, byteCount: waiting.count)
        let view = ByteView(start: UnsafeRawPointer(block), count: waiting.count)
        output.removeAll()
        let progress =
            isWake
            ? connection.wake(view, output: output) : connection.receive(view, output: output)
        block.deallocate()
        world.quiescence.end(port.reactor)
        require(
            progress.consumed >= 0 && progress.consumed <= waiting.count,
            "a handler can only consume what it was given"
        )
        require(
            progress.next != .drain || output.count > 0,
            "a handler that waits for its replies to go out must have made some"
        )
        waiting.removeFirst(progress.consumed)
        received += output.view.bytes
        largestOutput = max(largestOutput, output.count)
        needed = progress.needed
        switch progress.next {
        case .receive: break
        case .drain: isDraining = true
        case .pause: isPaused = true
        case .close: hangUp()
        }
    }

    /// Whether the node has asked for the connection's end.
    package var isEnded: Bool { port.isEnded }

    /// The replies that came, all of them whole.
    package func replies() -> [Reply] {
        let (replies, rest) = Reply.split(received)
        require(rest.isEmpty, "a handler appends whole replies only")
        received = []
        return replies
    }

    /// The replies that came, and the server's requests between them, all of them whole.
    package func messages() -> [Reply] {
        let (messages, rest) = Reply.split(received, allowsRequests: true)
        require(rest.isEmpty, "a handler appends whole messages only")
        received = []
        return messages
    }

    /// Sends one request and returns its replies, once the lanes have done what they can.
    package func ask(_ request: [UInt8]) -> [Reply] {
        send(request)
        settle()
        return replies()
    }
}

internal import Bytes
package import Seams
internal import Wire

/// Makes the handler of a connection on which a node reads the changes of this node's copies.
package typealias ChangesAnswer = @Sendable (any ConnectionPort) -> any ConnectionHandler

/// An HTTP feed's connection to one node: over the network, or within this process.
protocol ChangesLink: AnyObject, Sendable {
    /// Sends frames; without effect once the connection is closed.
    func send(_ frames: [UInt8])
    /// Closes the connection; nothing is received after that, except what is under way.
    func close()
}

/// What a link reports: whole frames, or its end with the reason.
enum ChangesLinkEvent: Sendable {
    case frames([UInt8])
    /// The text has no full stop, as it becomes the end of a sentence.
    case lost(String)
}

/// A connection to another node.
final class RemoteChangesLink: ChangesLink, ConnectionHandler {
    private struct State {
        var port: (any ConnectionPort)?
        var unsent: [UInt8] = []
        var isClosed = false
    }

    private let report: @Sendable (ChangesLinkEvent) -> Void
    private let decoder = ChangesFrameDecoder(isFromCollector: false)
    private let state = Guarded(State())

    init(report: @escaping @Sendable (ChangesLinkEvent) -> Void) {
        self.report = report
    }

    func send(_ frames: [UInt8]) {
        let port = state.withLock { state in
            guard !state.isClosed else { return (any ConnectionPort)?.none }
            state.unsent += frames
            return state.port
        }
        port?.wake()
    }

    func close() {
        let port = state.withLock { state in
            state.isClosed = true
            state.unsent = []
            return state.port
        }
        port?.close()
    }

    /// The connection is open.
    func attach(_ port: any ConnectionPort) {
        let isClosed = state.withLock { state in
            state.port = port
            return state.isClosed
        }
        if isClosed { port.close() } else { port.wake() }
    }

    // MARK: Called by the reactor

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        let found = decoder.wholeFrames(in: input)
        if let flaw = found.flaw {
            report(.lost("it sent \(flaw)"))
            return ReceiveProgress(consumed: input.count, next: .close)
        }
        if found.count > 0 { report(.frames(input.slice(0, found.count).bytes)) }
        let unsent = state.withLock { state in
            defer { state.unsent = [] }
            return state.unsent
        }
        output.append(unsent)
        return ReceiveProgress(consumed: found.count, next: .receive, needed: found.needed)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() {
        let wasClosed = state.withLock { state in
            defer { state.isClosed = true }
            return state.isClosed
        }
        if !wasClosed { report(.lost("it ended the connection")) }
    }
}

extension ChangesFrameDecoder {
    /// The whole frames at the front of `input`: their bytes, the length of the incomplete frame after
    /// them (0 if unknown), and what is wrong with the frame after them (nil if nothing is).
    func wholeFrames(in input: ByteView) -> (count: Int, needed: Int, flaw: String?) {
        var count = 0
        while true {
            switch next(in: input.dropFirst(count)) {
            case .frame(let frame): count += frame.byteCount
            case .incomplete(let needed): return (count, needed, nil)
            case .invalid(let flaw): return (count, 0, flaw)
            }
        }
    }
}

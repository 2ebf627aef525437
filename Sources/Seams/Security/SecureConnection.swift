package import Bytes

/// A handler that decides whether the other side is the expected one.
package protocol SecuredHandler: ConnectionHandler {
    /// The handshake of `channel` is complete; returns whether the connection goes on. Content follows
    /// only then.
    func secured(by channel: any SecureChannel) -> Bool
}

/// Another protocol over a secured connection.
///
/// The inner handler receives the bytes that the other side's inner handler appended, under the
/// same rules as on a socket: it may leave bytes unconsumed, pause, let its output drain, or close.
///
/// - The inner handler gets no byte before it has accepted the other side. Only its
///   `closed` may be called before.
/// - Opened and unconsumed content is bounded. While the inner handler is paused, nothing is opened,
///   so the socket's flow control holds the other side back.
package final class SecureConnection: DuplexHandler {
    package struct Limits: Sendable {
        /// Unconsumed content.
        package var contentBytesMax: Int
        /// Replies that may accumulate before the connection must send some.
        package var outputBytesMax: Int

        package init(contentBytesMax: Int, outputBytesMax: Int) {
            self.contentBytesMax = contentBytesMax
            self.outputBytesMax = outputBytesMax
        }
    }

    /// The memory that an idle connection keeps for content, and for replies.
    private static let keptBytesMax = 512 << 10

    private let channel: any SecureChannel
    private let inner: any SecuredHandler
    private let limits: Limits
    /// Opened bytes that the inner handler has not consumed.
    private let content = ByteWriter(capacity: 16)
    private let replies = ByteWriter(capacity: 16)
    private var isSecured = false
    /// Whether the channel may have more content without further input.
    private var hasMore = true
    /// How many bytes the inner handler needs in all before it is called again.
    private var needed = 0
    private var isPaused = false
    private var isDraining = false

    /// - Parameters:
    ///   - channel: The channel over a new connection.
    ///   - limits: The bounds of the connection's memory.
    ///   - inner: Gets the content.
    package init(_ channel: any SecureChannel, limits: Limits, inner: any SecuredHandler) {
        self.channel = channel
        self.limits = limits
        self.inner = inner
    }

    package func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        serve(input, output, isWake: false)
    }

    package func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        serve(input, output, isWake: true)
    }

    /// Content goes on to the inner handler only if that is a `DuplexHandler` too.
    package var isDuplex: Bool {
        isSecured && !isPaused && (inner as? any DuplexHandler)?.isDuplex ?? false
    }

    package func receiveWhileSending(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        serve(input, output, isWake: false, isSending: true)
    }

    package func closed() {
        inner.closed()
        content.removeAll(keepingAtMost: 16)
        replies.removeAll(keepingAtMost: 16)
    }

    /// Opens content until there is none, or the inner handler pauses, drains or closes.
    private func serve(
        _ input: ByteView,
        _ output: ByteWriter,
        isWake: Bool,
        isSending: Bool = false
    ) -> ReceiveProgress {
        var consumed = 0
        var isWake = isWake && isSecured
        var isDue = isWake || (isDraining && !isSending)
        if isWake { isPaused = false }
        // A handler that waits for the earlier output goes on waiting.
        isDraining = isDraining && isSending
        while true {
            if isDue {
                let next = callInner(isWake: isWake, isSending: isSending, output)
                (isDue, isWake) = (false, false)
                let isFull = next != .receive || output.count >= limits.outputBytesMax
                if isFull, !isSending || next == .close {
                    // The output is full, and more content may be complete: continue when it was
                    // sent.
                    let wanted = next == .receive ? .drain : next
                    return ReceiveProgress(consumed: consumed, next: wanted)
                }
            }
            if isPaused { return ReceiveProgress(consumed: consumed, next: .pause) }
            if consumed == input.count && !hasMore {
                return ReceiveProgress(consumed: consumed, next: isDraining ? .drain : .receive)
            }
            let rest = input.dropFirst(consumed)
            let progress = channel.receive(rest, content: content, output: output)
            consumed += progress.consumed
            switch progress.next {
            case .close(let reason):
                if let reason { inner.broken(reason) }
                return ReceiveProgress(consumed: input.count, next: .close)
            case .receive: hasMore = false
            case .more: hasMore = true
            }
            if !isSecured, channel.isOpen {
                isSecured = true
                guard inner.secured(by: channel) else {
                    return ReceiveProgress(consumed: input.count, next: .close)
                }
                // The side that speaks first does it now.
                (isDue, isWake) = (true, true)
            } else {
                isDue = isSecured && !content.view.isEmpty && content.count >= needed
            }
            if progress.next.isReceive && !isDue {
                return ReceiveProgress(consumed: consumed, next: isDraining ? .drain : .receive)
            }
        }
    }

    private func callInner(
        isWake: Bool,
        isSending: Bool,
        _ output: ByteWriter
    ) -> ReceiveProgress.Next {
        let view = content.view
        let progress =
            if isSending, let duplex = inner as? any DuplexHandler {
                duplex.receiveWhileSending(view, output: replies)
            } else if isWake {
                inner.wake(view, output: replies)
            } else {
                inner.receive(view, output: replies)
            }
        precondition(
            progress.consumed >= 0 && progress.consumed <= view.count,
            "a handler can only consume what it was given"
        )
        precondition(
            isSending ? replies.count == 0 : progress.next != .drain || replies.count > 0,
            "a handler that waits for its replies to go out has made some, and makes none meanwhile"
        )
        if progress.consumed == view.count {
            content.removeAll(keepingAtMost: Self.keptBytesMax)
        } else {
            content.removeFirst(progress.consumed)
        }
        let isSent = isSending || channel.send(replies.view, output: output)
        replies.removeAll(keepingAtMost: Self.keptBytesMax)
        needed = progress.needed
        isPaused = progress.next == .pause
        isDraining = progress.next == .drain || (isDraining && isSending)
        guard isSent else {
            inner.broken("it is in the middle of a handshake")
            return .close
        }
        guard max(content.count, needed) <= limits.contentBytesMax else {
            inner.broken("it sent a frame beyond all bounds")
            return .close
        }
        return progress.next
    }
}

extension SecureProgress.Next {
    fileprivate var isReceive: Bool { if case .receive = self { true } else { false } }
}

package import Bytes
internal import CZlib

/// Why bytes cannot be inflated.
package enum InflateFailure: Error, Equatable, Sendable {
    case damaged
    /// The output exceeds `InflateBounds`.
    case bomb
}

/// How far a stream may expand, so that a small input cannot fill the memory or occupy the processor.
package struct InflateBounds: Equatable, Sendable {
    /// Bytes of output that any input may have.
    package var freeBytes = 1 << 20
    /// Bytes of output for each byte of input, beyond `freeBytes`.
    ///
    /// JSON reaches some 20, and deflate at most 1 032.
    package var ratioMax = 100

    package init() {}

    func allow(output: Int, ofInput input: Int) -> Bool {
        output <= freeBytes || output / ratioMax <= input
    }
}

/// Inflates a stream part by part.
///
/// - A call appends at most as many bytes as its caller allows, so the caller bounds the memory.
/// - After a failure the stream cannot be continued.
/// - Some 40 KiB of memory belong to a stream.
package final class Inflater {
    private let stream: UnsafeMutablePointer<z_stream>
    private let format: DeflateFormat
    private let bounds: InflateBounds
    private var (inputBytes, outputBytes) = (0, 0)
    private var hasFailed = false
    /// Whether the input so far is complete: for gzip, one or several whole members.
    package private(set) var isAtEnd = false

    package init(_ format: DeflateFormat, _ bounds: InflateBounds = InflateBounds()) {
        self.format = format
        self.bounds = bounds
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let code = divan_inflate_init(stream, format.windowBits(DeflateFormat.windowBitsMax))
        precondition(code == Z_OK, "there is memory for a stream of zlib: error \(code)")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Inflates from the front of `input` until it is consumed or the output has as much as it may.
    ///
    /// If less than `input` is consumed, or exactly `outputMax` bytes were appended, there may be more output:
    /// call again with the rest, even if that is empty.
    ///
    /// - Parameters:
    ///   - input: The next bytes of the stream.
    ///   - output: Gets the inflated bytes.
    ///   - outputMax: Bytes to append at most; at least 1.
    /// - Returns: The number of consumed bytes.
    /// - Throws: `InflateFailure`; the output may have some bytes by then.
    package func inflate(
        _ input: ByteView,
        to output: ByteWriter,
        atMost outputMax: Int
    ) throws(InflateFailure) -> Int {
        guard !hasFailed else { throw .damaged }
        var (consumed, appended) = (0, 0)
        while appended < outputMax {
            if isAtEnd {
                // A gzip file may have several members, one behind the other.
                guard consumed < input.count else { break }
                guard format == .gzip, inflateReset(stream) == Z_OK else { throw fail(.damaged) }
                isAtEnd = false
            }
            let rest = input.dropFirst(consumed)
            let step = step(rest, to: output, atMost: outputMax - appended)
            consumed += step.consumed
            appended += step.appended
            inputBytes += step.consumed
            outputBytes += step.appended
            guard bounds.allow(output: outputBytes, ofInput: inputBytes) else { throw fail(.bomb) }
            switch step.code {
            case Z_OK: break
            case Z_STREAM_END: isAtEnd = true
            // Neither input nor room for output is left.
            case Z_BUF_ERROR: return consumed
            default: throw fail(.damaged)
            }
        }
        return consumed
    }

    private func step(
        _ input: ByteView,
        to output: ByteWriter,
        atMost outputMax: Int
    ) -> (consumed: Int, appended: Int, code: CInt) {
        let before = output.count
        // Text expands to some four times its deflated size.
        let room = min(outputMax, max(4 << 10, min(4 * input.count, 64 << 10)))
        let inputCount = min(input.count, 1 << 30)
        stream.pointee.next_in = UnsafeMutablePointer(
            mutating: input.start.assumingMemoryBound(to: Bytef.self)
        )
        stream.pointee.avail_in = uInt(inputCount)
        stream.pointee.next_out = output.claim(room).assumingMemoryBound(to: Bytef.self)
        stream.pointee.avail_out = uInt(room)
        let code = CZlib.inflate(stream, Z_NO_FLUSH)
        let appended = room - Int(stream.pointee.avail_out)
        output.truncate(to: before + appended)
        let consumed = inputCount - Int(stream.pointee.avail_in)
        stream.pointee.next_in = nil
        stream.pointee.next_out = nil
        return (consumed, appended, code)
    }

    private func fail(_ failure: InflateFailure) -> InflateFailure {
        hasFailed = true
        return failure
    }
}

package import Bytes
internal import CZlib

/// How much memory a `Deflater` has, and how well it compresses.
package struct DeflateSettings: Equatable, Sendable {
    /// 1 to 9; zlib's usual level is 6.
    package var level = 6
    /// The window of repetitions has 2^`windowBits` bytes, 9 to 15.
    package var windowBits = 15
    /// 1 to 9: the memory of tables is 2^(`memoryLevel` + 9) bytes.
    package var memoryLevel = 8

    package init() {}

    /// 256 KiB, for a stream that lives for one answer.
    package static let large = DeflateSettings()

    /// 48 KiB, for a stream that a client keeps open: some 5 % larger output.
    package static let small: DeflateSettings = {
        var settings = DeflateSettings()
        (settings.windowBits, settings.memoryLevel) = (12, 6)
        return settings
    }()
}

/// Deflates a stream part by part.
package final class Deflater {
    private let stream: UnsafeMutablePointer<z_stream>

    package init(_ format: DeflateFormat, _ settings: DeflateSettings = .large) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let code = divan_deflate_init(
            stream,
            CInt(settings.level),
            format.windowBits(settings.windowBits),
            CInt(settings.memoryLevel)
        )
        precondition(code == Z_OK, "there is memory for a stream of zlib: error \(code)")
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Appends what zlib has ready after these bytes, which may be nothing yet.
    package func deflate(_ input: ByteView, to output: ByteWriter) {
        run(input, to: output, Z_NO_FLUSH)
    }

    /// Appends all that the receiver needs for the bytes so far; ends with `00 00 FF FF` (a sync flush).
    ///
    /// Appends nothing if nothing was deflated since the last flush.
    package func flush(to output: ByteWriter) {
        run(.empty, to: output, Z_SYNC_FLUSH)
    }

    /// Appends the end of the stream, which can only be reset then.
    package func finish(to output: ByteWriter) {
        run(.empty, to: output, Z_FINISH)
    }

    /// Begins a new stream in the same memory.
    package func reset() {
        let code = deflateReset(stream)
        precondition(code == Z_OK, "a stream of zlib can be reset: error \(code)")
    }

    private func run(_ input: ByteView, to output: ByteWriter, _ flush: CInt) {
        var input = input
        while true {
            let part = input.slice(0, min(input.count, 1 << 30))
            let isLast = part.count == input.count
            stream.pointee.next_in = UnsafeMutablePointer(
                mutating: part.start.assumingMemoryBound(to: Bytef.self)
            )
            stream.pointee.avail_in = uInt(part.count)
            let before = output.count
            let room = max(1 << 10, Int(min(deflateBound(stream, uLong(part.count)), 64 << 10)))
            stream.pointee.next_out = output.claim(room).assumingMemoryBound(to: Bytef.self)
            stream.pointee.avail_out = uInt(room)
            let code = CZlib.deflate(stream, isLast ? flush : Z_NO_FLUSH)
            precondition(code != Z_STREAM_ERROR, "a finished stream is reset before its next use")
            let isFull = stream.pointee.avail_out == 0
            output.truncate(to: before + room - Int(stream.pointee.avail_out))
            input = input.dropFirst(part.count - Int(stream.pointee.avail_in))
            stream.pointee.next_in = nil
            stream.pointee.next_out = nil
            // Room that is left means that zlib has nothing more to write.
            if input.isEmpty, !isFull { return }
        }
    }
}

/// The container around deflated bytes.
package enum DeflateFormat: Sendable {
    /// RFC 1952: HTTP's `Content-Encoding: gzip`.
    case gzip
    /// RFC 1951, without a header or a checksum: BLIP.
    case raw

    /// zlib's parameter for a window of 2^`bits` bytes: negative for raw, 16 more for gzip.
    func windowBits(_ bits: Int) -> CInt { CInt(self == .gzip ? bits + 16 : -bits) }

    /// The largest window: the one that a receiver must have for every sender.
    static let windowBitsMax = Int(MAX_WBITS)
}

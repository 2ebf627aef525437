package import Bytes
internal import Vocabulary

/// A request as it would be if its client had not compressed the value.
package enum InflatedFrame {
    /// Appends a frame with its value inflated, without the snappy bit.
    ///
    /// - Parameters:
    ///   - frame: A frame with a compressed value.
    ///   - valueCount: The length that the value states (`Snappy.rawCount`), within the limits.
    ///   - writer: Receives the frame.
    /// - Returns: False if the value is damaged; then nothing is appended.
    package static func append(_ frame: Frame, valueCount: Int, to writer: ByteWriter) -> Bool {
        let start = writer.count
        let (whole, packed) = (frame.whole, frame.value)
        writer.append(whole.slice(0, whole.count - packed.count))
        guard Snappy.decompress(packed, rawCount: valueCount, to: writer) else {
            writer.truncate(to: start)
            return false
        }
        let datatype = frame.datatype.subtracting(.snappy)
        writer.replace(at: start + FrameHeader.datatypeOffset, bigEndian: datatype.rawValue)
        let bodyCount = writer.count - start - FrameHeader.byteCount
        writer.replace(at: start + FrameHeader.bodyCountOffset, bigEndian: UInt32(bodyCount))
        return true
    }
}

/// Compression of values in frames that were encoded before.
///
/// Values are compressed after they were copied, so never under a vBucket's lock.
@usableFromInline
package enum CompressedFrame {
    /// The longest value that is compressed.
    ///
    /// 256 KiB take 220 µs: the most that the other connections of the reactor may wait for one
    /// answer.
    package static let valueBytesMax = 256 << 10
    /// The shortest value that is compressed.
    ///
    /// Compressing 4 KiB of JSON takes 2.2 µs and saves 2.3 KiB, which take 19 µs on a network of
    /// 1 Gbit/s. A shorter value fits into two packets anyway. Computed, so that other modules see a
    /// constant.
    @inlinable package static var valueBytesMin: Int { 4 << 10 }

    private static func isCompressible(_ header: FrameHeader) -> Bool {
        let count = header.valueCount
        return count >= valueBytesMin && count <= valueBytesMax
            && !header.datatype.contains(.snappy)
    }

    /// Compresses the value of the last frame in `output`, if that saves at least a sixth of it.
    ///
    /// - Parameters:
    ///   - output: Ends with the frame.
    ///   - start: Where the frame begins.
    ///   - scratch: For the compressed value.
    package static func compress(
        lastFrameOf output: ByteWriter,
        at start: Int,
        by scratch: ByteWriter
    ) {
        let header = FrameHeader(output.view.dropFirst(start))
        precondition(start + header.frameCount == output.count, "the frame is the last one")
        guard isCompressible(header) else { return }
        let count = header.valueCount
        scratch.removeAll(keepingAtMost: 1 << 20)
        let packed = Snappy.compress(output.view.dropFirst(output.count - count), to: scratch)
        guard isWorthIt(packed, count) else { return }
        output.truncate(to: output.count - count)
        output.append(scratch.view)
        mark(output, at: start, header, valueCount: packed)
    }

    /// Compresses the values of all frames from `start` on, in place.
    ///
    /// - Parameters:
    ///   - output: Has whole frames from `start` on.
    ///   - start: Where the first frame begins.
    ///   - scratch: For the compressed frames.
    package static func compress(
        framesOf output: ByteWriter,
        from start: Int,
        by scratch: ByteWriter
    ) {
        scratch.removeAll(keepingAtMost: 1 << 20)
        var place = start
        while place < output.count {
            let frame = output.view.dropFirst(place)
            let header = FrameHeader(frame)
            let (whole, value) = (header.frameCount, header.valueCount)
            place += whole
            let copy = scratch.count
            guard isCompressible(header) else {
                scratch.append(frame.slice(0, whole))
                continue
            }
            scratch.append(frame.slice(0, whole - value))
            let packed = Snappy.compress(frame.slice(whole - value, value), to: scratch)
            if isWorthIt(packed, value) {
                mark(scratch, at: copy, header, valueCount: packed)
            } else {
                scratch.truncate(to: copy)
                scratch.append(frame.slice(0, whole))
            }
        }
        output.truncate(to: start)
        output.append(scratch.view)
    }

    private static func isWorthIt(_ packed: Int, _ raw: Int) -> Bool { packed * 6 <= raw * 5 }

    /// Corrects the header of a frame whose value was replaced by its compressed form.
    private static func mark(
        _ writer: ByteWriter,
        at start: Int,
        _ header: FrameHeader,
        valueCount: Int
    ) {
        let datatype = header.datatype.union(.snappy)
        writer.replace(at: start + FrameHeader.datatypeOffset, bigEndian: datatype.rawValue)
        let bodyCount = header.bodyCount - header.valueCount + valueCount
        writer.replace(at: start + FrameHeader.bodyCountOffset, bigEndian: UInt32(bodyCount))
    }
}

internal import ArgumentParser
internal import Bytes
internal import Vocabulary
internal import Wire

/// The three protocols of the driver.
enum Dialect: String, CaseIterable, ExpressibleByArgument, Sendable {
    /// memcached binary with login, bucket and cluster map.
    case couchbase
    /// memcached binary, nothing else: vBucket 0, no login.
    case memcached
    /// RESP, as Redis speaks it.
    case redis

    var isBinary: Bool { self != .redis }

    // MARK: Requests

    /// Appends a GET; the answer has the same `opaque`, if the protocol has one.
    func appendGet(
        _ key: Int,
        _ documents: Documents,
        vBucket: VBucketID,
        opaque: UInt32,
        to writer: ByteWriter
    ) {
        if isBinary {
            let start = writer.count
            RequestEncoder.append(.get, to: writer, vBucket: vBucket, opaque: opaque)
            documents.appendKey(key, to: writer)
            Dialect.patch(writer, start, keyBytes: documents.keyBytes)
        } else {
            writer.append(text: "*2\r\n$3\r\nGET\r\n$\(documents.keyBytes)\r\n")
            documents.appendKey(key, to: writer)
            writer.append("\r\n")
        }
    }

    /// Appends a SET without expiry and flags.
    func appendSet(
        _ key: Int,
        value: Int,
        _ documents: Documents,
        vBucket: VBucketID,
        opaque: UInt32,
        to writer: ByteWriter
    ) {
        if isBinary {
            let start = writer.count
            RequestEncoder.append(.set, to: writer, vBucket: vBucket, opaque: opaque)
            // No flags, no expiry.
            writer.append(bigEndian: UInt64(0))
            writer.replace(at: start + 4, bigEndian: UInt8(8))
            documents.appendKey(key, to: writer)
            documents.appendValue(value, to: writer)
            Dialect.patch(writer, start, keyBytes: documents.keyBytes)
        } else {
            writer.append(text: "*3\r\n$3\r\nSET\r\n$\(documents.keyBytes)\r\n")
            documents.appendKey(key, to: writer)
            writer.append(text: "\r\n$\(documents.valueBytes)\r\n")
            documents.appendValue(value, to: writer)
            writer.append("\r\n")
        }
    }

    /// Writes the lengths of a frame whose key and value were appended in place.
    private static func patch(_ writer: ByteWriter, _ start: Int, keyBytes: Int) {
        let body = writer.count - start - FrameHeader.byteCount
        writer.replace(at: start + 2, bigEndian: UInt16(keyBytes))
        writer.replace(at: start + 8, bigEndian: UInt32(body))
    }

    // MARK: Answers

    /// The first item in the received bytes.
    enum Scan {
        case reply(Reply)
        case incomplete(needed: Int)
        case invalid
    }

    /// The fields of an answer that the driver uses.
    struct Reply {
        /// 0 is success; the memcached statuses, and for RESP those that mean the same.
        let status: UInt16
        /// Nil in RESP.
        let opaque: UInt32?
        let byteCount: Int
        let valueCount: Int
        /// Offset and length of the extras (mutation tokens).
        let extrasCount: Int
    }

    @inline(__always)
    func scan(_ input: ByteView) -> Scan { isBinary ? scanFrame(input) : scanRESP(input) }

    @inline(__always)
    private func scanFrame(_ input: ByteView) -> Scan {
        guard input.count >= FrameHeader.byteCount else {
            return .incomplete(needed: FrameHeader.byteCount)
        }
        let header = FrameHeader(input)
        guard header.magicByte == 0x81, header.valueCount >= 0 else { return .invalid }
        let length = header.frameCount
        guard input.count >= length else { return .incomplete(needed: length) }
        return .reply(
            Reply(
                status: header.statusNumber,
                opaque: header.opaque,
                byteCount: length,
                valueCount: header.valueCount,
                extrasCount: header.extrasCount
            )
        )
    }

    @inline(__always)
    private func scanRESP(_ input: ByteView) -> Scan {
        // The longest expected line is an error; the shortest answer is five bytes.
        var end = 1
        while end < input.count, input[end] != 0x0a { end += 1 }
        guard end < input.count else { return .incomplete(needed: input.count + 1) }
        let line = end + 1
        switch input[0] {
        case UInt8(ascii: "+"): return .reply(Dialect.resp(0, line, 0))
        case UInt8(ascii: "-"): return .reply(Dialect.resp(Status.internalError.rawValue, line, 0))
        case UInt8(ascii: "$"):
            if input[1] == UInt8(ascii: "-") {
                return .reply(Dialect.resp(Status.keyNotFound.rawValue, line, 0))
            }
            var length = 0
            for offset in 1..<(end - 1) {
                let digit = Int(input[offset]) - 48
                guard (0...9).contains(digit), length < 1 << 30 else { return .invalid }
                length = length * 10 + digit
            }
            let whole = line + length + 2
            guard input.count >= whole else { return .incomplete(needed: whole) }
            return .reply(Dialect.resp(0, whole, length))
        default: return .invalid
        }
    }

    @inline(__always)
    private static func resp(_ status: UInt16, _ byteCount: Int, _ valueCount: Int) -> Reply {
        Reply(
            status: status,
            opaque: nil,
            byteCount: byteCount,
            valueCount: valueCount,
            extrasCount: 0
        )
    }
}

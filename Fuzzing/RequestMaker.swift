import Bytes
import TestWorld
import Vocabulary

/// Makes well-formed requests from the fuzzer's bytes, so that inputs reach the commands.
///
/// A few bytes choose a request: its command, its key, the source of its CAS, its extras and its
/// value. There are few keys, so that requests affect the same documents.
struct RequestMaker {
    static let keys = ["a", "b", "c", "dd", "e:1", "f", "g", "counter"]

    /// Command and the length of its extras; if two lengths are valid, the other is tried as well.
    private static let commands: [(opcode: UInt8, extras: Int)] = [
        (0x00, 0), (0x01, 8), (0x02, 8), (0x03, 8), (0x04, 0), (0x05, 20), (0x06, 20), (0x09, 0),
        (0x0a, 0), (0x0b, 0), (0x0c, 0), (0x0d, 0), (0x0e, 0), (0x0f, 0), (0x10, 0), (0x11, 8),
        (0x14, 0), (0x15, 20), (0x19, 0), (0x1c, 4), (0x1d, 4), (0x1e, 4), (0x1f, 0), (0x20, 0),
        (0x21, 0), (0x22, 0), (0x23, 4), (0x24, 4), (0x89, 0), (0x91, 0), (0x92, 0), (0x94, 4),
        (0x94, 0), (0x95, 0), (0xa0, 1), (0xa0, 0), (0xa1, 0), (0xb5, 0), (0xb5, 16), (0xfe, 0),
        (0x08, 0), (0x18, 0), (0x08, 4), (0x07, 0), (0x17, 0), (0x1b, 4),
    ]

    func stream(from view: ByteView) -> [UInt8] {
        var source = ByteSource(bytes: view.bytes[...])
        var stream: [UInt8] = []
        var opaque: UInt32 = 0
        while !source.bytes.isEmpty, opaque < 200 {
            opaque += 1
            stream += request(&source, opaque)
        }
        return stream
    }

    private func request(_ source: inout ByteSource, _ opaque: UInt32) -> [UInt8] {
        let (opcode, extrasCount) = RequestMaker.commands[
            Int(source.byte()) % RequestMaker.commands.count
        ]
        let choice = source.byte()
        let key = Array(RequestMaker.keys[Int(choice & 7)].utf8)
        var extras: [UInt8] = []
        if extrasCount > 0 {
            // Mostly zeros: no flags, no expiry, small numbers.
            extras = [UInt8](repeating: 0, count: extrasCount)
            extras[extrasCount - 1] = source.byte()
            if choice & 0x08 != 0 { extras = source.bytes(extrasCount) }
        }
        let number = VBucketID(ofKey: key, count: 64).number
        let framing: [UInt8]? =
            switch choice >> 4 & 7 {
            case 6: [0x00]
            case 7: source.bytes(Int(source.byte() & 7))
            default: nil
            }
        return frame(
            opcode,
            key: hasKey(opcode) ? key : [],
            value: value(of: opcode, key, &source),
            extras: extras,
            vBucket: choice & 0x80 != 0 && choice & 0x08 != 0 ? 1_000 : number,
            opaque: opaque,
            cas: choice & 0x80 != 0 ? UInt64(source.byte()) : 0,
            framing: framing
        )
    }

    private func hasKey(_ opcode: UInt8) -> Bool {
        ![
            0x07, 0x08, 0x0a, 0x0b, 0x10, 0x17, 0x18, 0x1b, 0x1f, 0x20, 0x91, 0x92, 0xb5, 0xfe,
        ].contains(opcode)
    }

    private func value(of opcode: UInt8, _ key: [UInt8], _ source: inout ByteSource) -> [UInt8] {
        switch opcode {
        case 0x01, 0x02, 0x03, 0x11, 0x0e, 0x0f, 0x19:
            let count = Int(source.byte())
            // Large values now and then: four bytes chosen, the rest repeated.
            guard count < 250 else {
                return [UInt8](repeating: source.byte(), count: (count - 249) * 20_000)
            }
            return source.bytes(count % 40)
        case 0x1f: return source.bytes(Int(source.byte() & 7) * 2)
        case 0x21, 0x22: return source.bytes(Int(source.byte() & 63))
        case 0x91: return source.bytes(8)
        case 0x92:
            let pair =
                big(VBucketID(ofKey: key, count: 64).number) + big(UInt16(key.count)) + key
            return pair + source.bytes(Int(source.byte() & 3))
        case 0xfe: return [0, source.byte()]
        default: return []
        }
    }
}

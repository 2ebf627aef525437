internal import Bytes
internal import SubDocument

/// Lookups by path in a document, without a request around them.
enum PathCases {
    private static let documentBytes = 10 << 10

    /// Parses a path and finds its field in the middle of a document of 10 KiB.
    static func lookup(_ operations: Int) {
        let path = Array("wanted".utf8)
        document().withUnsafeBytes { document in
            path.withUnsafeBytes { text in
                measuredWork {
                    for _ in 0..<operations {
                        guard let path = try? DocumentPath(ByteView(text), isAttribute: false),
                            case .success(let value) = PathLookup.value(
                                at: path,
                                in: ByteView(document)
                            )
                        else { preconditionFailure("the field is not found") }
                        precondition(value.count == 4, "another value is found")
                    }
                }
            }
        }
    }

    /// An object: short members, objects with objects inside, the field, and the same again.
    private static func document() -> [UInt8] {
        var samples = Samples(seed: 7)
        var bytes = Array("{".utf8)
        appendHalf("first", until: documentBytes / 2, &samples, to: &bytes)
        bytes += Array("\"wanted\":4711,".utf8)
        appendHalf("second", until: documentBytes, &samples, to: &bytes)
        return bytes + Array("\"end\":true}".utf8)
    }

    private static func appendHalf(
        _ name: String,
        until end: Int,
        _ samples: inout Samples,
        to bytes: inout [UInt8]
    ) {
        for order in 0..<2 {
            bytes += Array("\"\(name)-order-\(order)\":".utf8) + samples.json(1_024)
            bytes.append(UInt8(ascii: ","))
        }
        var field = 0
        while bytes.count < end - 32 {
            bytes += Array("\"\(name)-\(field)\":\"value \(field * 7_919)\",".utf8)
            field += 1
        }
    }
}

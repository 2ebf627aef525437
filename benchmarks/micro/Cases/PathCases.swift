internal import Bytes
internal import COnDemand
internal import SubDocument

/// Lookups by path in a document, without a request around them.
enum PathCases {
    /// Where the document has its field, and the field's number.
    static let path = "wanted"
    private static let number = 4_711
    private static let documentBytes = 10 << 10

    /// Parses a path and finds its field in the middle of a document of 10 KiB.
    static func lookup(_ operations: Int) {
        let path = Array(path.utf8)
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

    /// The same walk by simdjson's on-demand parser, which indexes the whole document first.
    static func walkOnDemand(_ operations: Int) throws {
        let walk = document().withUnsafeBytes { divan_on_demand_create($0.baseAddress, $0.count) }
        guard let walk else { throw MicroError(description: "simdjson has no memory") }
        defer { divan_on_demand_destroy(walk) }
        measuredWork {
            for _ in 0..<operations {
                let found = divan_on_demand_find(walk, path, path.utf8.count)
                precondition(found == number, "another value is found")
            }
        }
    }

    /// An object: short members, objects with objects inside, the field, and the same again.
    static func document() -> [UInt8] {
        var samples = Samples(seed: 7)
        var bytes = Array("{".utf8)
        appendHalf("first", until: documentBytes / 2, &samples, to: &bytes)
        bytes += Array("\"\(path)\":\(number),".utf8)
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

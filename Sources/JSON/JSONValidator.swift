package import Bytes
internal import CSimdjson

/// Tells whether a value is JSON, where its client did not say.
///
/// It stands on the write path, so it decides as cheaply as it can: by the first and last byte
/// (most binary values end there), scalars by a few loads, documents by simdjson, which has the
/// parser's memory ready. simdjson needs some 14 bytes per byte of document, which no quota counts;
/// so documents above `fastBytesMax` go through `JSONGrammar`, which is slower and needs none.
///
/// - Both roads answer alike: `JSONGrammar` is the definition, simdjson the fast yes or no.
/// - For one thread at a time: one belongs to each lane.
package final class JSONValidator {
    /// Beyond this a parser would keep more than 4 MiB for itself.
    static let fastBytesMax = 256 << 10

    private var parser: OpaquePointer?

    package init() {}

    deinit {
        if let parser { divan_json_destroy(parser) }
    }

    /// Whether `view` is one JSON text: any value at the root, nothing behind it.
    package func isDocument(_ view: ByteView) -> Bool {
        switch JSONValidator.glance(view) {
        case .binary: return false
        case .scalar: return JSONGrammar.accepts(view)
        case .document: break
        }
        guard view.count <= JSONValidator.fastBytesMax, let parser = parserIfAny() else {
            return JSONGrammar.accepts(view)
        }
        switch Int(divan_json_validate(parser, view.start, view.count)) {
        case divan_json_no: return false
        case divan_json_yes: return true
        default: return JSONGrammar.accepts(view)
        }
    }

    enum Glance {
        case binary
        case scalar
        case document
    }

    /// What the first and the last byte that are not blank allow.
    static func glance(_ view: ByteView) -> Glance {
        var first = 0
        while first < view.count, JSONScanner.isBlank(view[first]) { first += 1 }
        guard first < view.count else { return .binary }
        var last = view.count - 1
        while JSONScanner.isBlank(view[last]) { last -= 1 }
        switch (view[first], view[last]) {
        case (UInt8(ascii: "{"), UInt8(ascii: "}")), (UInt8(ascii: "["), UInt8(ascii: "]")):
            return .document
        case (UInt8(ascii: "\""), UInt8(ascii: "\"")):
            return first < last ? .document : .binary
        case (UInt8(ascii: "-"), let end), (UInt8(ascii: "0")...UInt8(ascii: "9"), let end):
            return end &- UInt8(ascii: "0") < 10 ? .scalar : .binary
        case (UInt8(ascii: "t"), UInt8(ascii: "e")), (UInt8(ascii: "f"), UInt8(ascii: "e")),
            (UInt8(ascii: "n"), UInt8(ascii: "l")):
            return .scalar
        default: return .binary
        }
    }

    private func parserIfAny() -> OpaquePointer? {
        if parser == nil {
            parser = divan_json_create(JSONValidator.fastBytesMax, JSONGrammar.depthMax)
        }
        return parser
    }
}

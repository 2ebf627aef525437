package import Bytes
internal import CSimdjson

/// Decides whether a value is JSON, whatever the client declares.
///
/// It is on the write path, so it decides as cheaply as possible: by the first and last byte (which
/// decide most binary values), scalars by a few loads, documents by simdjson with a preallocated
/// parser. simdjson needs about 14 bytes of memory per byte of document, which count against no
/// quota. Therefore documents above `fastBytesMax` are checked by `JSONGrammar`, which is slower
/// and needs no memory.
///
/// - Both checks agree: `JSONGrammar` is the definition, simdjson a fast implementation.
/// - One thread at a time may use a validator; each lane has its own.
package final class JSONValidator {
    /// Above this size a parser would keep more than 4 MiB of memory.
    static let fastBytesMax = 256 << 10

    private var parser: OpaquePointer?

    package init() {}

    deinit {
        if let parser { divan_json_destroy(parser) }
    }

    /// Whether all of `view` is one JSON text, with any value at the root.
    package func isDocument(_ view: ByteView) -> Bool {
        switch JSONValidator.kind(of: view) {
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

    enum Kind {
        case binary
        case scalar
        case document
    }

    /// The only kind of value that the first and last byte that are not blank allow.
    static func kind(of view: ByteView) -> Kind {
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

    /// The parser, made at the first call; nil if there is no memory for it.
    private func parserIfAny() -> OpaquePointer? {
        if parser == nil {
            parser = divan_json_create(JSONValidator.fastBytesMax, JSONGrammar.depthMax)
        }
        return parser
    }
}

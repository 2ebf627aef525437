internal import Bytes
internal import Vocabulary

/// A text that a write replaces by a property of the version that it makes, or of the one before.
enum Macro: Equatable {
    case cas
    case seqno
    /// The CRC-32C of the new body.
    case checksum
    /// `${$document}` or a member of it, of the version before.
    case document(field: String?)

    enum Outcome: Equatable {
        case macro(Macro)
        case unknown
        /// A macro of a virtual attribute or member that does not exist.
        case unknownVirtual
    }

    /// Parses a path's value, which has to be exactly the JSON string of a macro.
    static func parse(_ value: ByteView) -> Outcome {
        switch value.text {
        case #""${Mutation.CAS}""#: return .macro(.cas)
        case #""${Mutation.seqno}""#: return .macro(.seqno)
        case #""${Mutation.value_crc32c}""#: return .macro(.checksum)
        case #""${$document}""#: return .macro(.document(field: nil))
        case let text:
            guard text.hasPrefix(#""${$"#), text.hasSuffix(#"}""#) else { return .unknown }
            let prefix = #""${$document."#
            guard text.hasPrefix(prefix) else { return .unknownVirtual }
            let field = String(text.dropFirst(prefix.count).dropLast(2))
            return VirtualAttribute.documentFields.contains(field)
                ? .macro(.document(field: field)) : .unknownVirtual
        }
    }
}

/// Texts that stand for macros while the paths of a request are applied.
///
/// Later paths may move, replace or delete what an earlier path wrote. So each macro is written as a
/// text that occurs nowhere else in the document's attributes and in the request, and the final
/// attributes are searched for it.
struct MacroPlaceholders {
    private struct Entry {
        let macro: Macro
        /// Without the quotes; as long as what replaces it.
        let text: [UInt8]
    }

    private var entries: [Entry] = []
    private var next = 0
    /// Bytes in which no placeholder may occur: all that may become a part of an attribute.
    private let foreign: [ByteView]

    init(foreign: [ByteView]) {
        self.foreign = foreign
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The JSON string to write for a macro that is expanded later.
    mutating func add(_ macro: Macro) -> [UInt8] {
        let count = macro == .checksum ? 10 : MacroPatch.placeholder.utf8CodeUnitCount
        var text: [UInt8] = []
        repeat {
            next += 1
            let number = Array(String(next).utf8)
            // No property of a version has such a character.
            text = [UInt8](repeating: UInt8(ascii: "@"), count: count - number.count) + number
        } while occurs(text)
        entries.append(Entry(macro: macro, text: text))
        return [UInt8(ascii: "\"")] + text + [UInt8(ascii: "\"")]
    }

    /// Replaces the placeholders in the first `end` bytes of `writer`: the checksum by its number, the
    /// others by what the store patches.
    func expand(in writer: ByteWriter, end: Int, body: ByteView) -> [MacroPatch] {
        var patches: [MacroPatch] = []
        for entry in entries {
            var start = 0
            while let offset = MacroPlaceholders.firstOffset(
                of: entry.text,
                in: writer.view.slice(0, end),
                from: start
            ) {
                start = offset + entry.text.count
                var number: UInt64 = 0
                switch entry.macro {
                case .cas: patches.append(MacroPatch(offset: offset, kind: .cas))
                case .seqno: patches.append(MacroPatch(offset: offset, kind: .seqno))
                case .checksum: number = UInt64(CRC32C.checksum(body))
                case .document: preconditionFailure("the version before is known at once")
                }
                let digits = entry.text.count - 2
                let text = VirtualAttribute.hexadecimal(number, digits: digits)
                for (place, byte) in text.utf8.enumerated() {
                    writer.replace(at: offset + place, bigEndian: byte)
                }
            }
        }
        return patches
    }

    private func occurs(_ text: [UInt8]) -> Bool {
        foreign.contains { view in
            MacroPlaceholders.firstOffset(of: text, in: view, from: 0) != nil
        }
    }

    private static func firstOffset(
        of text: [UInt8],
        in view: ByteView,
        from start: Int
    ) -> Int? {
        text.withUnsafeBytes { buffer in
            let sought = ByteView(buffer)
            var offset = start
            while offset + sought.count <= view.count {
                if view[offset] == sought[0], view.slice(offset, sought.count).equals(sought) {
                    return offset
                }
                offset += 1
            }
            return nil
        }
    }
}

/// Binary values in attributes, which are JSON: a string with a mark and base64, as Couchbase Server
/// stores them.
enum BinaryValue {
    private static let mark = Array("cb-content-base64-encoded:".utf8)

    /// The JSON string of any bytes.
    static func encode(_ value: ByteView) -> [UInt8] {
        let quote = UInt8(ascii: "\"")
        return [quote] + mark + Base64.encode(value) + [quote]
    }

    /// The bytes of a JSON string; nil if it is none of `encode`.
    static func decode(_ text: ByteView) -> [UInt8]? {
        let start = mark.count + 1
        guard text.count > start, text[0] == UInt8(ascii: "\""),
            text[text.count - 1] == UInt8(ascii: "\""),
            mark.withUnsafeBytes({ text.slice(1, mark.count).equals(ByteView($0)) })
        else { return nil }
        return Base64.decode(text.slice(start, text.count - start - 1))
    }
}

internal import Bytes
internal import Vocabulary

/// Texts that stand for macros while the paths of a request are applied.
///
/// Later paths may move, replace or delete what an earlier path wrote. So each macro is written as a
/// text that occurs nowhere else in the document's attributes and in the request, and the final
/// attributes are searched for it.
///
/// A text ends with a mark, which all texts share, and the macro's number of two digits. Finding a
/// mark takes one pass over the foreign bytes for each of its characters, whatever they are.
struct MacroPlaceholders {
    private struct Entry {
        let macro: Macro
        /// Without the quotes; as long as what replaces it.
        let text: [UInt8]
    }

    private var entries: [Entry] = []
    /// Empty before the first macro.
    private var mark: [UInt8] = []
    /// Bytes in which no placeholder may occur: all that may become a part of an attribute.
    private let foreign: [ByteView]

    /// No property of a version has this character, nor has a binary value.
    private static let first = UInt8(ascii: "@")

    init(foreign: [ByteView]) {
        self.foreign = foreign
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The JSON string to write for a macro that is expanded later.
    mutating func add(_ macro: Macro) -> [UInt8] {
        if mark.isEmpty { mark = MacroPlaceholders.unusedMark(in: foreign) }
        let count = macro == .checksum ? 10 : MacroPatch.placeholder.utf8CodeUnitCount
        let (tens, ones) = entries.count.quotientAndRemainder(dividingBy: 10)
        let number = [UInt8(ascii: "0") + UInt8(tens), UInt8(ascii: "0") + UInt8(ones)]
        let padding = count - mark.count - number.count
        let text = [UInt8](repeating: MacroPlaceholders.first, count: padding) + mark + number
        entries.append(Entry(macro: macro, text: text))
        return [UInt8(ascii: "\"")] + text + [UInt8(ascii: "\"")]
    }

    /// Replaces the placeholders in the first `end` bytes of `writer`: the checksum by its number, the
    /// others by what the store patches.
    func expand(in writer: ByteWriter, end: Int, body: ByteView) -> [MacroPatch] {
        var patches: [MacroPatch] = []
        var offset = 0
        while let next = MacroPlaceholders.offset(
            of: mark,
            in: writer.view.slice(0, end),
            from: offset
        ) {
            offset = next + mark.count
            guard let (entry, start) = entry(withMarkAt: next, in: writer.view.slice(0, end))
            else { continue }
            var number: UInt64 = 0
            switch entry.macro {
            case .cas: patches.append(MacroPatch(offset: start, kind: .cas))
            case .seqno: patches.append(MacroPatch(offset: start, kind: .seqno))
            case .checksum: number = UInt64(CRC32C.checksum(body))
            case .document: preconditionFailure("the version before is known at once")
            }
            let digits = entry.text.count - 2
            let text = VirtualAttribute.hexadecimal(number, digits: digits)
            for (place, byte) in text.utf8.enumerated() {
                writer.replace(at: start + place, bigEndian: byte)
            }
        }
        return patches
    }

    /// The macro whose text has its mark at `offset`, and where the text begins; nil if it is none.
    ///
    /// A macro is a whole string and no key. A path can write a key that is not among the foreign
    /// bytes, as it loses its backticks.
    private func entry(withMarkAt offset: Int, in view: ByteView) -> (Entry, start: Int)? {
        let end = offset + mark.count + 2
        guard end <= view.count else { return nil }
        let tens = view[end - 2] &- UInt8(ascii: "0")
        let ones = view[end - 1] &- UInt8(ascii: "0")
        let index = Int(tens) * 10 + Int(ones)
        guard tens < 10, ones < 10, index < entries.count else { return nil }
        let entry = entries[index]
        let start = end - entry.text.count
        let quote = UInt8(ascii: "\"")
        guard start > 0, view[start - 1] == quote, end + 1 < view.count, view[end] == quote,
            view[end + 1] != UInt8(ascii: ":"),
            entry.text.withUnsafeBytes({
                view.slice(start, entry.text.count).equals(ByteView($0))
            })
        else { return nil }
        return (entry, start)
    }

    // MARK: Search

    /// A text that occurs in none of the views: `@` and five letters or digits.
    ///
    /// Each character is the rarest one behind those before it. So each divides the number of
    /// occurrences by 62, and 62^5 are more than the bytes of a request and a document.
    private static func unusedMark(in views: [ByteView]) -> [UInt8] {
        let characters = Array(
            "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8
        )
        var mark = [first]
        while mark.count < 6 {
            var counts = [Int](repeating: 0, count: 256)
            for view in views {
                var offset = 0
                while let next = MacroPlaceholders.offset(of: mark, in: view, from: offset) {
                    offset = next + mark.count
                    if offset < view.count { counts[Int(view[offset])] += 1 }
                }
            }
            let rarest = characters.min { counts[Int($0)] < counts[Int($1)] }
            mark.append(rarest ?? first)
        }
        return mark
    }

    /// The first place of `text` from `start` on.
    static func offset(of text: [UInt8], in view: ByteView, from start: Int) -> Int? {
        let bytes = view.buffer
        return text.withUnsafeBytes { sought in
            var offset = start
            while offset + sought.count <= bytes.count {
                if bytes[offset] == sought[0],
                    view.slice(offset, sought.count).equals(ByteView(sought))
                {
                    return offset
                }
                offset += 1
            }
            return nil
        }
    }
}

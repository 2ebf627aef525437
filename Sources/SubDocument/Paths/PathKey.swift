internal import Bytes

/// An object key as a path writes it.
struct PathKey {
    /// The key without outer backticks.
    let content: ByteView
    /// Whether the content has neither backticks nor escapes: then it is the key's UTF-8.
    let isPlain: Bool

    /// Whether this is the key whose JSON string has that content; nil if an escape in it is invalid.
    @inline(__always)
    func matches(_ other: ByteView, hasEscapes: Bool) -> Bool? {
        if isPlain, !hasEscapes { return content.equals(other) }
        return matchesDecoded(other)
    }

    @inline(never)
    private func matchesDecoded(_ other: ByteView) -> Bool? {
        StringContent.areEqual(
            StringContent(content, dropsBackticks: true),
            StringContent(other, dropsBackticks: false)
        )
    }

    /// Appends the key as the content of a JSON string.
    func append(to writer: ByteWriter) {
        if isPlain {
            writer.append(content)
            return
        }
        let backtick = UInt8(ascii: "`")
        var offset = 0
        while offset < content.count {
            let isBacktick = content[offset] == backtick
            if isBacktick { offset += 1 }
            let isDoubled = offset < content.count && content[offset] == backtick
            if !isBacktick || isDoubled {
                writer.append(content[offset])
                offset += 1
            }
        }
    }
}

internal import Bytes
internal import Wire

/// Measures how deep JSON text nests.
///
/// The node ends a process that sends deeper text than `ScriptLimits.depthMax`. An honest function
/// may produce such text: a document of the greatest depth inside an object is one level deeper.
enum Nesting {
    /// The bytes of the shortest text above the limit: its brackets.
    private static let bytesMin = 2 * (ScriptLimits.depthMax + 1)

    /// Whether valid JSON text has more than `ScriptLimits.depthMax` open brackets somewhere.
    static func isTooDeep(_ text: ByteView) -> Bool {
        guard text.count >= bytesMin else { return false }
        var (offset, depth) = (0, 0)
        var isInString = false
        while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "\""): isInString.toggle()
            // The escaped character may be a quotation mark.
            case UInt8(ascii: "\\"): offset += 1
            case _ where isInString: break
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if depth > ScriptLimits.depthMax { return true }
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
            offset += 1
        }
        return false
    }
}

/// The words of names and sentences, as the rules about words compare them.
enum Words {
    /// The words of a line in lower case: `vBucketMap_of` is v, bucket, map and of.
    ///
    /// A word ends at every byte that is not an ASCII letter and before a capital after a small
    /// letter; of several capitals, the last begins a word if a small letter follows. Byte by byte,
    /// because a regular expression on every line of the house takes many seconds.
    static func all(of line: Substring) -> [String] {
        var found: [String] = []
        var word: [UInt8] = []
        var isAfterSmall = false
        var isAfterEscape = false
        var capitals = 0
        func end() {
            if !word.isEmpty { found.append(String(decoding: word, as: UTF8.self)) }
            word = []
            capitals = 0
        }
        for byte in line.utf8 {
            let isSmall = byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z")
            let isCapital = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
            defer { isAfterSmall = isSmall }
            // The letter of `\n` belongs to no word.
            if isAfterEscape || !isSmall && !isCapital {
                isAfterEscape = !isAfterEscape && byte == UInt8(ascii: "\\")
                end()
                continue
            }
            if isCapital {
                if isAfterSmall { end() }
                word.append(byte | 0x20)
                capitals += 1
            } else {
                // `HTTPServer` is http and server.
                if capitals > 1, let first = word.popLast() {
                    end()
                    word.append(first)
                }
                capitals = 0
                word.append(byte)
            }
        }
        end()
        return found
    }
}

package import Seams
internal import Wire

/// A JavaScript library for sync functions, as text: script processes read no files.
package struct ScriptLibrary: Hashable, Sendable {
    package let bytes: [UInt8]

    /// Where Debian's package `libjs-underscore` has its files.
    package static let underscoreDirectory = "/usr/share/javascript/underscore"

    /// Reads underscore.js.
    ///
    /// - Throws: `DiskError` if it cannot be read, with the package that has it.
    package static func underscore(
        on disk: any Disk,
        in directory: String = underscoreDirectory
    ) throws(DiskError) -> ScriptLibrary {
        for name in ["underscore.min.js", "underscore.js"] {
            guard let bytes = try disk.read("\(directory)/\(name)") else { continue }
            guard bytes.count <= ScriptLimits.libraryBytesMax else {
                let text =
                    "\(directory)/\(name) has more than \(ScriptLimits.libraryBytesMax) bytes."
                throw DiskError(code: .failed, path: directory, description: text)
            }
            return ScriptLibrary(bytes: bytes)
        }
        throw DiskError(
            code: .missing,
            path: directory,
            description: "A sync function uses underscore.js, which is not in \(directory). "
                + "Install the package libjs-underscore."
        )
    }

    /// Whether a source has the name `_` in front of `.` or `(`, so that it needs underscore.js.
    ///
    /// Such a name in a string or a comment counts too, which costs memory only.
    package static func isNamed(in source: String) -> Bool {
        var last = UInt8(ascii: " ")
        // Whether `_` and blanks were read last.
        var isNamed = false
        for byte in source.utf8 {
            switch byte {
            case UInt8(ascii: "_"): isNamed = !isPart(last) && last != UInt8(ascii: ".")
            case UInt8(ascii: "."), UInt8(ascii: "("): if isNamed { return true }
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r"):
                break
            default: isNamed = false
            }
            last = byte
        }
        return false
    }

    /// Whether a name may contain the byte; all that are not ASCII count.
    private static func isPart(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...:
            true
        default: false
        }
    }
}

package import Bytes
internal import JSON

/// The members that belong to the user, as canonical JSON, into which the gateway's members can be written.
///
/// No member of a user begins with `_`, so the members of the gateway are adjacent in the
/// sorted text. Answers and digests therefore copy the text twice and parse nothing.
package struct DocumentContent: Equatable, Sendable {
    /// An object, `{}` at least.
    package let bytes: [UInt8]
    /// How many bytes of the members stand before the gateway's: those whose names begin with a byte below `_`.
    private let leadCount: Int

    /// A document without members of the user.
    package static let empty = DocumentContent(bytes: Array("{}".utf8), leadCount: 0)

    init(bytes: [UInt8], leadCount: Int) {
        self.bytes = bytes
        self.leadCount = leadCount
    }

    /// The content whose `bytes` these are.
    ///
    /// Of most documents it reads the first name only: few names begin with a byte below `_`.
    package init(canonical bytes: [UInt8]) {
        self.bytes = bytes
        leadCount = bytes.withUnsafeBytes { DocumentContent.leadCount(ByteView($0)) }
    }

    private static func leadCount(_ text: ByteView) -> Int {
        var member = 1
        while member + 1 < text.count {
            if !isLead(text.dropFirst(member + 1)) { return max(member - 2, 0) }
            member = end(ofMember: member, text) + 1
        }
        return text.count - 2
    }

    /// Whether a name, which is escaped and has a quote at its end, is below `_`.
    private static func isLead(_ name: ByteView) -> Bool {
        // Escaped are quotes, backslashes, control characters and `<>&`, which are below, and U+2028,
        // U+2029 and U+FFFD, which are not.
        if name[0] == UInt8(ascii: "\\") {
            return name[1] != UInt8(ascii: "u") || name[2] == UInt8(ascii: "0")
        }
        return name[0] == UInt8(ascii: "\"") || name[0] < UInt8(ascii: "_")
    }

    /// The place of the comma or brace behind a member.
    private static func end(ofMember start: Int, _ text: ByteView) -> Int {
        var (depth, isInString) = (0, false)
        var index = start
        while index + 1 < text.count {
            switch text[index] {
            case UInt8(ascii: "\\"): index += 1
            case UInt8(ascii: "\""): isInString.toggle()
            case _ where isInString: break
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ",") where depth == 0: return index
            default: break
            }
            index += 1
        }
        return index
    }

    package var isEmpty: Bool { bytes.count == 2 }

    /// Appends the document with the gateway's members `own`: without blanks, names in the order of their bytes.
    package func append(with own: GatewayMembers, to output: ByteWriter) {
        append(to: output) { own.append(to: $0) }
    }

    /// Appends the input of the revision digest (MD5 of it is the digest that Sync Gateway makes).
    ///
    /// It has one byte with the length of the parent's id, that id, and the document with `_attachments` and
    /// `_deleted` as its only members of the gateway (contract, section 1). `attachments` are the entries that
    /// are stored, with digest, length and `revpos`, not those that were sent. Without a parent a zero byte
    /// comes first.
    ///
    /// `deletion` is the value of `_deleted` that was sent; nil if there was none.
    package func appendDigestInput(
        parent: RevisionID?,
        attachments: [UInt8]?,
        deletion: Bool?,
        to output: ByteWriter
    ) {
        let parentText = Array(parent?.text ?? [])
        output.append(UInt8(truncatingIfNeeded: parentText.count))
        output.append(parentText)
        append(to: output) { output in
            let members = GatewayMembers(attachments: attachments, deletion: deletion)
            return members.append(to: output)
        }
    }

    /// Appends the document with the members that `body` writes after its own leading ones.
    ///
    /// `body` returns whether it wrote a member.
    package func append(to output: ByteWriter, own body: (ByteWriter) -> Bool) {
        bytes.withUnsafeBytes { buffer in
            let content = ByteView(buffer)
            let lead = content.slice(1, leadCount)
            let rest = content.slice(1 + leadCount, content.count - 2 - leadCount)
            output.append(UInt8(ascii: "{"))
            output.append(lead)
            let mark = output.count
            if !lead.isEmpty { output.append(UInt8(ascii: ",")) }
            if !body(output) { output.truncate(to: mark) }
            // The rest begins with its own comma if there is a lead.
            if lead.isEmpty, !rest.isEmpty, output.count > mark { output.append(UInt8(ascii: ",")) }
            output.append(rest)
            output.append(UInt8(ascii: "}"))
        }
    }
}

extension RevisionID {
    /// The bytes of `GENERATION-DIGEST`.
    package var text: [UInt8] { Array("\(generation)-".utf8) + digest }
}

internal import Bytes
internal import JSON

/// The refusal of another server, as far as it may be passed on to the client of a request.
///
/// The client chooses the server that this node asks. Without a bound on its answer a client could read
/// through this node what servers in the node's network answer. So only what a node of Divan answers is
/// passed on: a JSON list of sentences, of at most 1 KiB.
package enum ForeignSentences {
    private static let bytesMax = 1_024

    /// The sentences in a body, separated by spaces; nil if it is anything else than a list of them.
    package static func text(of body: [UInt8]) -> String? {
        guard body.count <= bytesMax else { return nil }
        let value = body.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let entries = value?.array, !entries.isEmpty else { return nil }
        let sentences = entries.compactMap(\.string)
        guard sentences.count == entries.count, sentences.allSatisfy(isSentence) else { return nil }
        return sentences.joined(separator: " ")
    }

    /// A refusal that arrived as text, or a sentence that replaces it.
    package static func text(ofRefusal text: String) -> String {
        text.utf8.count <= bytesMax && isSentence(text)
            ? text : "It refused, with an invalid answer."
    }

    /// Whether a text is one line.
    private static func isSentence(_ text: String) -> Bool {
        !text.isEmpty && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f }
    }
}

internal import Orchestration
internal import Vocabulary

/// Conditional changes (RFC 9110, 13): a reply to GET has the version of its object in `ETag`, and a change
/// with that text in `If-Match` is refused with 412 if the object has another version.
///
/// `If-None-Match: *` permits a change only if the object does not exist. Lists and weak tags are refused,
/// because a change that ignored them would overwrite what its author wanted to keep.
extension RESTRequest {
    /// The version that the object must have before the request changes it; nil if the fields are not
    /// supported.
    var precondition: Precondition<String>? {
        switch (fields[.ifMatch], fields[.ifNoneMatch]) {
        case (nil, nil): .any
        case (nil, "*"): .absent
        case (let tag?, nil): Self.entity(tag).map { .version($0) }
        default: nil
        }
    }

    /// The text of an entity tag between its quotation marks; nil for anything else.
    private static func entity(_ tag: String) -> String? {
        let bytes = tag.utf8
        guard bytes.count > 2, bytes.first == UInt8(ascii: "\""), bytes.last == UInt8(ascii: "\"")
        else { return nil }
        let text = tag.dropFirst().dropLast()
        return text.utf8.contains(UInt8(ascii: "\"")) ? nil : String(text)
    }

    static let preconditionRule =
        "If-Match has one version, as GET replied it in ETag, in quotation marks; If-None-Match has *. "
        + "Only one of the two can be sent"
}

extension Reply {
    /// This reply with the version of the object that it shows.
    func version(_ version: String) -> Reply { header("ETag", "\"\(version)\"") }

    /// The refusal of a change, in the form of the admin port's errors.
    static func conflict(_ object: String, mustBeAbsent: Bool = false) -> Reply {
        let sentence = conflictSentence(object, mustBeAbsent: mustBeAbsent)
        return json(["errors": ["_": .string(sentence)]], status: 412)
    }

    /// Why a change of an object was refused, and what to do.
    ///
    /// - Parameters:
    ///   - object: The object, as the beginning of a sentence: `The document`.
    ///   - mustBeAbsent: Whether the request requires that the object does not exist.
    /// - Returns: A sentence.
    static func conflictSentence(_ object: String, mustBeAbsent: Bool) -> String {
        mustBeAbsent
            ? "\(object) exists already. Read it, and decide which version to keep"
            : "\(object) was changed or deleted after it was read. Read it again, and decide which version "
                + "to keep"
    }
}

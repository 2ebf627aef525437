internal import Bytes
internal import JSON
internal import Vocabulary

/// Why a text is not a design document: a sentence for its author.
package struct DesignFlaw: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// The rules of a design document's text.
///
/// The node that receives a document checks them once. The log does not: a later release may have
/// other rules, and every release must derive the same state from the same log.
extension DesignDefinition {
    /// The definition in a text.
    ///
    /// - Parameter text: UTF-8, with or without blanks.
    /// - Throws: `DesignFlaw` for the first rule that the text breaks.
    package init(of text: [UInt8]) throws(DesignFlaw) {
        let root = try Self.root(of: text)
        try Self.check(root, has: Self.documentMembers, "The design document")
        try Self.checkUnbuilt(root)
        self.init()
        if let views = root["views"] { self.views = try Self.views(in: views) }
        if let options = root["options"] { self.options = try Self.options(in: options) }
        if try Self.indexesTombstones(root) { options.indexesTombstones = true }
    }

    /// - Throws: `DesignFlaw` if the name of a design document is empty or too long.
    package static func check(name: String) throws(DesignFlaw) {
        if name.isEmpty { throw DesignFlaw("The name of the design document is empty.") }
        let (count, most) = (name.utf8.count, Limits.designNameBytesMax)
        if count > most {
            throw DesignFlaw(
                "The name of the design document has \(count) bytes; at most \(most) are possible."
            )
        }
    }

    static func root(of text: [UInt8]) throws(DesignFlaw) -> JSONValue {
        let root = text.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let root else {
            let isJSON = text.withUnsafeBytes { JSONGrammar.accepts(ByteView($0)) }
            throw DesignFlaw(
                isJSON
                    ? "The design document nests deeper than \(JSONValue.depthMax) levels, or has a "
                        + "number that is too large for a double."
                    : "The design document is not valid JSON."
            )
        }
        guard root.members != nil else {
            throw DesignFlaw("The design document is not a JSON object.")
        }
        return root
    }

    // MARK: Members

    private static let documentMembers = [
        "views", "options", "language", "index_xattr_on_deleted_docs", "spatial", "_id", "_rev",
    ]
    /// Gateways and clients write the last three, which have no effect in Couchbase Server either.
    private static let optionMembers = [
        "updateMinChanges", "replicaUpdateMinChanges", "index_xattr_on_deleted_docs", "local_seq",
        "include_design", "raw",
    ]

    /// Refuses other members than these: a misspelt one would be believed.
    private static func check(
        _ object: JSONValue,
        has known: [String],
        _ owner: String
    ) throws(DesignFlaw) {
        for member in object.members ?? [] where !known.contains(member.name) {
            throw DesignFlaw(
                "\(owner) has the member \"\(member.name)\", which means nothing. Its members are "
                    + "\(known.joined(separator: ", "))."
            )
        }
    }

    /// Refuses what is not built: functions in other languages, and spatial views.
    private static func checkUnbuilt(_ root: JSONValue) throws(DesignFlaw) {
        if let language = root["language"], !["javascript", ""].contains(language.string) {
            throw DesignFlaw(
                "The member \"language\" is not \"javascript\", the only one there is."
            )
        }
        if let spatial = root["spatial"], spatial.members?.isEmpty != true {
            throw DesignFlaw("The member \"spatial\" is not empty: there are no spatial views.")
        }
    }

    // MARK: Views

    private static func views(in value: JSONValue) throws(DesignFlaw) -> [View] {
        guard let members = value.members else {
            throw DesignFlaw("The member \"views\" is not a JSON object.")
        }
        guard members.count <= Limits.viewsMax else {
            throw DesignFlaw(
                "The design document has \(members.count) views; at most \(Limits.viewsMax) are "
                    + "possible."
            )
        }
        var views: [View] = []
        for member in members {
            let view = try Self.view(member.name, member.value)
            let isThere = views.contains { $0.name.utf8.elementsEqual(view.name.utf8) }
            if isThere {
                throw DesignFlaw("The view \"\(view.name)\" is defined more than once.")
            }
            views.append(view)
        }
        return views
    }

    private static func view(_ name: String, _ value: JSONValue) throws(DesignFlaw) -> View {
        if name.isEmpty { throw DesignFlaw("The name of a view is empty.") }
        if name.utf8.first.map(isBlank) == true || name.utf8.last.map(isBlank) == true {
            throw DesignFlaw("The name of the view \"\(name)\" begins or ends with a blank.")
        }
        guard value.members != nil else {
            throw DesignFlaw("The view \"\(name)\" is not a JSON object.")
        }
        try check(value, has: ["map", "reduce"], "The view \"\(name)\"")
        guard let map = value["map"] else {
            throw DesignFlaw("The view \"\(name)\" has no map function (member \"map\").")
        }
        guard let source = map.string else {
            throw DesignFlaw("The map function of the view \"\(name)\" is not a string.")
        }
        guard let reduce = value["reduce"] else { return View(name: name, map: source) }
        guard let reduction = reduce.string else {
            throw DesignFlaw("The reduce function of the view \"\(name)\" is not a string.")
        }
        guard !reduction.hasPrefix("_") || builtInReductions.contains(reduction) else {
            throw DesignFlaw(
                "The view \"\(name)\" has the reduce function \"\(reduction)\", which is not built "
                    + "in. The built-in ones are _count, _sum and _stats."
            )
        }
        return View(name: name, map: source, reduce: reduction)
    }

    /// Space, tab, line feed or carriage return.
    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d
    }

    // MARK: Options

    private static func options(in value: JSONValue) throws(DesignFlaw) -> Options {
        guard value.members != nil else {
            throw DesignFlaw("The member \"options\" is not a JSON object.")
        }
        try check(value, has: optionMembers, "The member \"options\"")
        var options = Options()
        options.indexesTombstones = try indexesTombstones(value)
        options.updateMinChanges = try changes(value, "updateMinChanges")
        options.replicaUpdateMinChanges = try changes(value, "replicaUpdateMinChanges")
        return options
    }

    private static func indexesTombstones(_ object: JSONValue) throws(DesignFlaw) -> Bool {
        guard let flag = object["index_xattr_on_deleted_docs"] else { return false }
        guard let claim = flag.bool else {
            throw DesignFlaw(
                "The option \"index_xattr_on_deleted_docs\" is neither true nor false."
            )
        }
        return claim
    }

    private static func changes(_ options: JSONValue, _ name: String) throws(DesignFlaw) -> Int? {
        guard let value = options[name] else { return nil }
        guard let count = value.int, count >= 0 else {
            throw DesignFlaw("The option \"\(name)\" is not a whole number of 0 or more.")
        }
        return count
    }
}

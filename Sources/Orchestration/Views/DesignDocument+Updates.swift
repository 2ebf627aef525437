internal import JSON

extension DesignDocument {
    /// The text with other settings for automatic updates of the indexes.
    ///
    /// - Parameters:
    ///   - updateMinChanges: Changes until the index is updated; nil leaves the option as it is.
    ///   - replicaUpdateMinChanges: The same for replicas.
    /// - Returns: The new text; other members keep their values and their order.
    package func body(
        updateMinChanges: Int?,
        replicaUpdateMinChanges: Int?
    ) -> [UInt8] {
        guard updateMinChanges != nil || replicaUpdateMinChanges != nil,
            let root = try? DesignDefinition.root(of: body)
        else { return body }
        var options = root["options"] ?? .object([])
        if let updateMinChanges {
            options = options.setting("updateMinChanges", .integer(updateMinChanges))
        }
        if let replicaUpdateMinChanges {
            options = options.setting("replicaUpdateMinChanges", .integer(replicaUpdateMinChanges))
        }
        guard options != root["options"] else { return body }
        return JSONWriter.text { $0.value(root.setting("options", options)) }
    }
}

extension JSONValue {
    /// This object with another value for a member, which becomes the last one if it is new.
    fileprivate func setting(_ name: String, _ value: JSONValue) -> JSONValue {
        var members = members ?? []
        if let place = members.lastIndex(where: { $0.name == name }) {
            members[place] = Member(name: name, value: value)
        } else {
            members.append(Member(name: name, value: value))
        }
        return .object(members)
    }
}

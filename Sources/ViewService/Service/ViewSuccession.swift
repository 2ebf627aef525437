/// Which definitions of a bucket's views answer until their changed ones are complete on all nodes.
///
/// For each view it has the definition that was complete everywhere last. If the view is changed, that
/// one is the previous definition, until the new one is complete everywhere. If the view is changed
/// again before, the definition in the middle never answers.
///
/// - A view that was never complete everywhere has no previous definition.
/// - A change that keeps the map function, for example of the reduce function, needs no other index, so it
///   is complete at once.
/// - A view that was deleted and made again has no previous definition. A node may adopt both changes in one
///   step: it finds that out by the revisions of the design document, which begin at 1 again. If the new
///   document was changed so often meanwhile that its number exceeds the known one, a node cannot tell this
///   from changes alone.
/// - Nodes decide this each for itself. A query that meets a node without the previous definition uses the
///   current one.
package struct ViewSuccession: Equatable, Sendable {
    /// By view; a view that is missing was never complete on all nodes.
    package private(set) var complete: [IndexReport.View: ViewDefinition] = [:]
    /// The adopted revisions of the bucket's design documents, by name; without those that are unknown.
    package private(set) var revisions: [String: DocumentRevision]

    package init(
        _ definitions: [ViewDefinition] = [],
        revisions: [String: DocumentRevision] = [:]
    ) {
        self.revisions = revisions
        for definition in definitions { complete[definition.name] = definition }
    }

    /// Follows the current definitions of the bucket; what they do not name is forgotten.
    ///
    /// - Parameters:
    ///   - definitions: All current definitions.
    ///   - newest: The revisions of their design documents.
    package mutating func adopt(
        _ definitions: [ViewDefinition],
        _ newest: [String: DocumentRevision]
    ) {
        var kept: [IndexReport.View: ViewDefinition] = [:]
        for definition in definitions {
            guard let known = complete[definition.name] else { continue }
            if known.hasIndex(of: definition) {
                kept[definition.name] = definition
            } else if !wasMadeAnew(definition.designDocument, newest) {
                kept[definition.name] = known
            }
        }
        complete = kept
        revisions = newest
    }

    /// Whether a design document was deleted since the adopted revision.
    private func wasMadeAnew(
        _ designDocument: String,
        _ newest: [String: DocumentRevision]
    ) -> Bool {
        guard let old = revisions[designDocument], let new = newest[designDocument] else {
            return false
        }
        return !new.mayFollow(old)
    }

    /// The index of this definition is complete on all nodes; `definitions` are the current ones.
    package mutating func markComplete(_ found: ViewDefinition, among definitions: [ViewDefinition])
    {
        for definition in definitions where definition.hasIndex(of: found) {
            complete[definition.name] = definition
        }
    }

    /// The definition that answers while the current one is not complete; nil if there is none.
    package func previous(of definition: ViewDefinition) -> ViewDefinition? {
        guard let known = complete[definition.name], !known.hasIndex(of: definition) else {
            return nil
        }
        return known
    }

    /// Whether a current definition has been complete on all nodes.
    package func isSettled(_ definition: ViewDefinition) -> Bool {
        complete[definition.name]?.hasIndex(of: definition) ?? false
    }
}

extension ViewDefinition {
    var name: IndexReport.View {
        IndexReport.View(designDocument: designDocument, view: view)
    }

    /// Whether both definitions have the same index.
    fileprivate func hasIndex(of other: ViewDefinition) -> Bool {
        // Strings that only look alike are equal in Swift, and have different signatures.
        guard map.utf8.elementsEqual(other.map.utf8) else { return false }
        return self == other
            || IndexSigning.signature(of: self) == IndexSigning.signature(of: other)
    }
}

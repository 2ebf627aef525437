internal import Vocabulary

/// Which definitions of a bucket's views answer until their changed ones are complete on all nodes.
///
/// For each view it has the definition that was complete everywhere last. If the view is changed, that
/// one is the previous definition, until the new one is complete everywhere. If the view is changed
/// again before, the definition in the middle never answers.
///
/// - A view that was never complete everywhere has no previous definition.
/// - A change that keeps the map function, for example of the reduce function, needs no other index, so it
///   is complete at once.
/// - Nodes decide this each for itself. A query that meets a node without the previous definition uses the
///   current one.
package struct ViewSuccession: Equatable, Sendable {
    /// By view; a view that is missing was never complete on all nodes.
    package private(set) var complete: [IndexReport.View: ViewDefinition] = [:]

    package init() {}

    package init(_ definitions: [ViewDefinition]) {
        for definition in definitions { complete[definition.name] = definition }
    }

    /// Follows the current definitions of the bucket; what they do not name is forgotten.
    package mutating func adopt(_ definitions: [ViewDefinition]) {
        var kept: [IndexReport.View: ViewDefinition] = [:]
        for definition in definitions {
            guard let known = complete[definition.name] else { continue }
            kept[definition.name] = known.hasIndex(of: definition) ? definition : known
        }
        complete = kept
    }

    /// The index of this definition is complete on all nodes; `definitions` are the current ones.
    package mutating func settle(_ settled: ViewDefinition, among definitions: [ViewDefinition]) {
        for definition in definitions where definition.hasIndex(of: settled) {
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

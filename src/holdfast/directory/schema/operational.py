"""RFC 4512 and its neighbours: the directory's own attributes, and the classes that it stands on."""

from typing import Final

# Ours stand below 2.25.201733915087124226513986227104352196921, an arc made of a UUID.

ATTRIBUTES: Final = """
( 1.3.6.1.1.4 NAME 'vendorName' EQUALITY caseExactMatch SYNTAX DirectoryString SINGLE-VALUE
  NO-USER-MODIFICATION USAGE dSAOperation )
( 1.3.6.1.1.5 NAME 'vendorVersion' EQUALITY caseExactMatch SYNTAX DirectoryString SINGLE-VALUE
  NO-USER-MODIFICATION USAGE dSAOperation )
( 1.3.6.1.1.16.4 NAME 'entryUUID' EQUALITY UUIDMatch ORDERING UUIDOrderingMatch SYNTAX UUID SINGLE-VALUE
  NO-USER-MODIFICATION USAGE directoryOperation )
( 1.3.6.1.1.20 NAME 'entryDN' EQUALITY distinguishedNameMatch SYNTAX DN SINGLE-VALUE NO-USER-MODIFICATION
  USAGE directoryOperation )
( 1.3.6.1.4.1.1466.101.120.5 NAME 'namingContexts' SYNTAX DN USAGE dSAOperation )
( 1.3.6.1.4.1.1466.101.120.6 NAME 'altServer' SYNTAX IA5String USAGE dSAOperation )
( 1.3.6.1.4.1.1466.101.120.7 NAME 'supportedExtension' SYNTAX OID USAGE dSAOperation )
( 1.3.6.1.4.1.1466.101.120.13 NAME 'supportedControl' SYNTAX OID USAGE dSAOperation )
( 1.3.6.1.4.1.1466.101.120.14 NAME 'supportedSASLMechanisms' SYNTAX DirectoryString USAGE dSAOperation )
( 1.3.6.1.4.1.1466.101.120.15 NAME 'supportedLDAPVersion' SYNTAX Integer USAGE dSAOperation )
( 1.3.6.1.4.1.1466.101.120.16 NAME 'ldapSyntaxes' EQUALITY objectIdentifierFirstComponentMatch SYNTAX
  LDAPSyntaxDescription USAGE directoryOperation )
( 1.3.6.1.4.1.4203.1.3.5 NAME 'supportedFeatures' EQUALITY objectIdentifierMatch SYNTAX OID USAGE
  dSAOperation )
( 2.5.4.0 NAME 'objectClass' EQUALITY objectIdentifierMatch SYNTAX OID )
( 2.5.4.1 NAME ( 'aliasedObjectName' 'aliasedEntryName' ) EQUALITY distinguishedNameMatch SYNTAX DN
  SINGLE-VALUE )
( 2.5.18.1 NAME 'createTimestamp' EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch
  SYNTAX GeneralizedTime SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )
( 2.5.18.2 NAME 'modifyTimestamp' EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch
  SYNTAX GeneralizedTime SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )
( 2.5.18.3 NAME 'creatorsName' EQUALITY distinguishedNameMatch SYNTAX DN SINGLE-VALUE NO-USER-MODIFICATION
  USAGE directoryOperation )
( 2.5.18.4 NAME 'modifiersName' EQUALITY distinguishedNameMatch SYNTAX DN SINGLE-VALUE
  NO-USER-MODIFICATION USAGE directoryOperation )
( 2.5.18.6 NAME 'subtreeSpecification' SYNTAX SubtreeSpecification SINGLE-VALUE USAGE directoryOperation )
( 2.5.18.9 NAME 'hasSubordinates' EQUALITY booleanMatch SYNTAX Boolean SINGLE-VALUE NO-USER-MODIFICATION
  USAGE directoryOperation )
( 2.5.18.10 NAME 'subschemaSubentry' EQUALITY distinguishedNameMatch SYNTAX DN SINGLE-VALUE
  NO-USER-MODIFICATION USAGE directoryOperation )
( 2.5.21.1 NAME 'dITStructureRules' EQUALITY integerFirstComponentMatch SYNTAX
  DITStructureRuleDescription USAGE directoryOperation )
( 2.5.21.2 NAME 'dITContentRules' EQUALITY objectIdentifierFirstComponentMatch SYNTAX
  DITContentRuleDescription USAGE directoryOperation )
( 2.5.21.4 NAME 'matchingRules' EQUALITY objectIdentifierFirstComponentMatch SYNTAX
  MatchingRuleDescription USAGE directoryOperation )
( 2.5.21.5 NAME 'attributeTypes' EQUALITY objectIdentifierFirstComponentMatch SYNTAX
  AttributeTypeDescription USAGE directoryOperation )
( 2.5.21.6 NAME 'objectClasses' EQUALITY objectIdentifierFirstComponentMatch SYNTAX ObjectClassDescription
  USAGE directoryOperation )
( 2.5.21.7 NAME 'nameForms' EQUALITY objectIdentifierFirstComponentMatch SYNTAX NameFormDescription
  USAGE directoryOperation )
( 2.5.21.8 NAME 'matchingRuleUse' EQUALITY objectIdentifierFirstComponentMatch SYNTAX
  MatchingRuleUseDescription USAGE directoryOperation )
( 2.5.21.9 NAME 'structuralObjectClass' EQUALITY objectIdentifierMatch SYNTAX OID SINGLE-VALUE
  NO-USER-MODIFICATION USAGE directoryOperation )
( 2.16.840.1.113730.3.1.34 NAME 'ref' EQUALITY caseExactMatch SYNTAX DirectoryString USAGE
  distributedOperation )
( 1.3.6.1.4.1.453.16.2.103 NAME 'numSubordinates' EQUALITY integerMatch ORDERING integerOrderingMatch
  SYNTAX Integer SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )
( 2.25.201733915087124226513986227104352196921.1 NAME 'lastModifiedCSN' DESC 'the change that the entry
  was last changed by' EQUALITY caseExactIA5Match ORDERING caseExactOrderingMatch SYNTAX IA5String
  SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )
( 2.25.201733915087124226513986227104352196921.2 NAME 'anonymousRead' DESC 'whether anyone may read the
  entry and those below it' EQUALITY booleanMatch SYNTAX Boolean SINGLE-VALUE USAGE directoryOperation )
( 2.25.201733915087124226513986227104352196921.3 NAME 'administrator' DESC 'who may change the entry and
  those below it: a person, or a group of persons' EQUALITY distinguishedNameMatch SYNTAX DN
  USAGE directoryOperation )
( 2.25.201733915087124226513986227104352196921.4 NAME 'conflict' DESC 'what masters did at once with the
  entry, of which not all could be' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString NO-USER-MODIFICATION
  USAGE directoryOperation )
( 2.25.201733915087124226513986227104352196921.5 NAME 'csnstate' DESC 'system time, offsets and sequence
  number of the generator of change sequence numbers' EQUALITY caseExactIA5Match SYNTAX IA5String
  NO-USER-MODIFICATION USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.6 NAME 'conflictID' DESC 'by which a conflict is named'
  EQUALITY caseExactMatch SYNTAX DirectoryString SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.7 NAME 'conflictKind' DESC 'what two changes disagreed about'
  EQUALITY caseIgnoreMatch SYNTAX DirectoryString SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.8 NAME 'conflictEntry' DESC 'the entry that they were about'
  EQUALITY distinguishedNameMatch SYNTAX DN SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.9 NAME 'conflictAttribute' DESC 'the attribute that they
  were about'
  EQUALITY caseIgnoreMatch SYNTAX DirectoryString SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.10 NAME 'conflictKept' DESC 'the change that counts'
  EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.11 NAME 'conflictLost' DESC 'the change that lost'
  EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.12 NAME 'conflictResolution' DESC 'written to resolve a
  conflict: kept or lost'
  EQUALITY caseIgnoreMatch SYNTAX DirectoryString
  SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.13 NAME 'replicaSuffix' DESC 'the suffix of a replica'
  EQUALITY distinguishedNameMatch SYNTAX DN SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.14 NAME 'replicaID' DESC 'the number of a replica'
  EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.15 NAME 'replicaVector' DESC 'the newest change of each
  master that a replica has'
  EQUALITY caseExactMatch SYNTAX DirectoryString
  SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.16 NAME 'conflictCount' DESC 'how many conflicts nobody has
  resolved'
  EQUALITY integerMatch SYNTAX Integer SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
( 2.25.201733915087124226513986227104352196921.17 NAME 'csnCount' DESC 'what became of the change sequence
  numbers of this process'
  EQUALITY caseExactMatch SYNTAX DirectoryString SINGLE-VALUE NO-USER-MODIFICATION
  USAGE dSAOperation )
"""

CLASSES: Final = """
( 1.3.6.1.4.1.1466.101.120.111 NAME 'extensibleObject' SUP top AUXILIARY )
( 2.5.6.0 NAME 'top' ABSTRACT MUST objectClass )
( 2.5.6.1 NAME 'alias' SUP top STRUCTURAL MUST aliasedObjectName )
( 2.5.17.0 NAME 'subentry' SUP top STRUCTURAL MUST ( cn $ subtreeSpecification ) )
( 2.5.20.1 NAME 'subschema' AUXILIARY MAY ( dITStructureRules $ nameForms $ dITContentRules $
  objectClasses $ attributeTypes $ matchingRules $ matchingRuleUse $ ldapSyntaxes ) )
( 2.16.840.1.113730.3.2.6 NAME 'referral' SUP top STRUCTURAL MUST ref )
( 2.25.201733915087124226513986227104352196921.101 NAME 'glue' DESC 'was removed, and has entries below it'
  SUP top STRUCTURAL )
( 2.25.201733915087124226513986227104352196921.102 NAME 'csnGenerator' DESC 'the generator of change
  sequence numbers of one suffix' SUP top STRUCTURAL MUST cn )
( 2.25.201733915087124226513986227104352196921.103 NAME 'replica' DESC 'one replica of one suffix' SUP top
  STRUCTURAL MUST cn )
( 2.25.201733915087124226513986227104352196921.104 NAME 'conflictRecord' DESC 'a change that lost, and the
  one that counts
  instead' SUP top STRUCTURAL MUST conflictID MAY description )
"""

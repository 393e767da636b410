"""RFC 2798: the class by which most people are in directories."""

from typing import Final

ATTRIBUTES: Final = """
( 0.9.2342.19200300.100.1.60 NAME 'jpegPhoto' SYNTAX JPEG )
( 2.16.840.1.113730.3.1.1 NAME 'carLicense' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString )
( 2.16.840.1.113730.3.1.2 NAME 'departmentNumber' EQUALITY caseIgnoreMatch SUBSTR
  caseIgnoreSubstringsMatch SYNTAX DirectoryString )
( 2.16.840.1.113730.3.1.3 NAME 'employeeNumber' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString SINGLE-VALUE )
( 2.16.840.1.113730.3.1.4 NAME 'employeeType' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString )
( 2.16.840.1.113730.3.1.39 NAME 'preferredLanguage' EQUALITY caseIgnoreMatch SUBSTR
  caseIgnoreSubstringsMatch SYNTAX DirectoryString SINGLE-VALUE )
( 2.16.840.1.113730.3.1.40 NAME 'userSMIMECertificate' SYNTAX Binary )
( 2.16.840.1.113730.3.1.216 NAME 'userPKCS12' SYNTAX Binary )
( 2.16.840.1.113730.3.1.241 NAME 'displayName' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch
  SYNTAX DirectoryString SINGLE-VALUE )
"""

CLASSES: Final = """
( 2.16.840.1.113730.3.2.2 NAME 'inetOrgPerson' SUP organizationalPerson STRUCTURAL MAY ( audio $
  businessCategory $ carLicense $ departmentNumber $ displayName $ employeeNumber $ employeeType $
  givenName $ homePhone $ homePostalAddress $ initials $ jpegPhoto $ labeledURI $ mail $ manager $ mobile
  $ o $ pager $ photo $ roomNumber $ secretary $ uid $ userCertificate $ x500uniqueIdentifier $
  preferredLanguage $ userSMIMECertificate $ userPKCS12 ) )
"""
